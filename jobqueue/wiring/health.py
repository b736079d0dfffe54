"""What the probes of the two programs tell (R-7.4). Answers never wait for anything."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from jobqueue.errors import JobQueueError
from jobqueue.http.health import Health, health_app
from jobqueue.http.server import HttpServer
from jobqueue.rpc.components import DEGRADED
from jobqueue.runtime.service import Service, running_services
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.worker.claiming import CLAIM_LOOP
from jobqueue.worker.signals import PHASE_ENTERED, PhaseEntered

_LOOK_INTERVAL_S, _LOOK_LIMIT_S = 2.0, 5.0


class Serving(Protocol):
    """What the probes ask a server. Named here, so that a worker loads none of it."""

    async def check(self) -> None:
        """Raise an error of ours unless work can be done."""

    def helpers(self) -> Sequence[admin.ComponentStatus]:
        """Return how Redis and Kafka are."""


class ServerHealth:
    """The probes of `jq-server`. ``server`` is set once it serves, ``draining`` when it ends."""

    def __init__(self) -> None:
        self.server: Serving | None = None
        self.draining = False
        self.readiness = Readiness(self._check)

    def look(self) -> Health:
        """Return what is true now."""
        return Health(stuck(), self._unready(), self._degraded())

    def _unready(self) -> dict[str, str]:
        if self.draining:
            return {"server": "draining"}
        if self.server is None:
            return {"server": "starting"}
        return {"database": self.readiness.cause} if self.readiness.cause else {}

    def _degraded(self) -> dict[str, str]:
        parts = self.server.helpers() if self.server else ()
        return {part.name: part.detail for part in parts if part.state == DEGRADED}

    async def _check(self) -> None:
        if self.server is not None:
            await self.server.check()


class Readiness(Service):
    """Looks every 2 s whether work can be done, so that a probe has its answer at once.

    ``cause`` says what is missing; empty: nothing. A look that fails is a finished turn.
    """

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        """``check`` raises an error of ours when work cannot be done."""
        super().__init__(
            "readiness", interval_s=_LOOK_INTERVAL_S, bound_s=_LOOK_INTERVAL_S + _LOOK_LIMIT_S
        )
        self.cause = "not looked yet"
        self._check = check

    async def turn(self) -> None:
        """Look once."""
        try:
            async with asyncio.timeout(_LOOK_LIMIT_S):
                await self._check()
        except JobQueueError as error:
            self.cause = str(error)
        except TimeoutError:
            self.cause = f"no answer in {_LOOK_LIMIT_S:.0f} s"
        else:
            self.cause = ""


class WorkerHealth:
    """The probes of `jq-worker`, from what it says of itself and how its claims go."""

    def __init__(self) -> None:
        self._phase = "starting"

    def listen(self) -> None:
        """Follow the phases of the worker, for the life of the process."""
        PHASE_ENTERED.subscribe(self._enter)

    def look(self) -> Health:
        """Return what is true now."""
        return Health(stuck(), self._unready())

    def _enter(self, news: PhaseEntered) -> None:
        self._phase = news.phase

    def _unready(self) -> dict[str, str]:
        if self._phase != "ready":
            return {"worker": self._phase}
        failing = [s for s in running_services() if s.name == CLAIM_LOOP and s.failures]
        return {s.name: f"{s.failures} claims in a row failed" for s in failing}


def stuck() -> dict[str, str]:
    """Return the loops of this process that make no progress, with for how long."""
    found = [(service.name, service.stuck_s) for service in running_services()]
    return {name: f"no progress for {idle_s:.0f} s" for name, idle_s in found if idle_s is not None}


def health_server(health: ServerHealth | WorkerHealth, port: int) -> HttpServer:
    """Return the health port of a program."""
    return HttpServer(health_app(health.look), "health.port", port)
