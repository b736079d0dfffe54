"""What the probes of `jq-server` tell (R-7.4). Answers never wait for anything."""

import asyncio
from collections.abc import Awaitable, Callable

from jobqueue.errors import JobQueueError
from jobqueue.http.health import Health
from jobqueue.rpc.components import DEGRADED
from jobqueue.runtime.service import Service
from jobqueue.wiring.health import stuck
from jobqueue.wiring.server import Server

_LOOK_INTERVAL_S, _LOOK_LIMIT_S = 2.0, 5.0


class ServerHealth:
    """What is told. ``server`` is set once it serves, ``draining`` when it ends."""

    def __init__(self) -> None:
        self.server: Server | None = None
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
        if not self.server.serving:
            return {"grpc": "its port is closed"}
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
