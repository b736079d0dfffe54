"""The gRPC server: services, health, reflection, limits, and its orderly end."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from jobqueue.errors import Unavailable
from jobqueue.rpc.admin_service import AdminService
from jobqueue.rpc.auth import Authenticator
from jobqueue.rpc.door import Door
from jobqueue.rpc.event_service import EventService
from jobqueue.rpc.gate import Gate
from jobqueue.rpc.gatekeeper import Gatekeeper
from jobqueue.rpc.guard import Guard
from jobqueue.rpc.handlers import Around
from jobqueue.rpc.health import DrainingHealth
from jobqueue.rpc.job_service import JobService
from jobqueue.rpc.library_log import hush_library
from jobqueue.rpc.worker_service import WorkerService
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.runtime.log import get_logger
from jobqueue.runtime.service import STALE_BOUNDS, Service
from jobqueue.transport.pings import LEAST_S, PINGS
from jobqueue.v1 import (
    admin_service_pb2,
    event_service_pb2,
    job_service_pb2,
    worker_service_pb2,
)
from jobqueue.v1.admin_service_pb2_grpc import add_AdminServiceServicer_to_server
from jobqueue.v1.event_service_pb2_grpc import add_EventServiceServicer_to_server
from jobqueue.v1.job_service_pb2_grpc import add_JobServiceServicer_to_server
from jobqueue.v1.worker_service_pb2_grpc import add_WorkerServiceServicer_to_server

SERVICES = (
    job_service_pb2.DESCRIPTOR.services_by_name["JobService"].full_name,
    admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name,
    worker_service_pb2.DESCRIPTOR.services_by_name["WorkerService"].full_name,
    event_service_pb2.DESCRIPTOR.services_by_name["EventService"].full_name,
)
ALL_INTERFACES = "[::]"
QUIET_S = 0.05
"""Without a refusal for this long, no call waits to be looked at."""
REFUSE_LIMIT_S = 1.0
"""Of the grace, at most this goes to refusing calls: some callers never stop trying."""
_WATCH_S, _LAST_CALLS_S = 0.25, 1.0

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Protection:
    """Who gets in. None: plaintext, and everyone who can connect.

    ``credentials`` makes new ones each time the port is opened: gRPC takes them for one port only.
    """

    credentials: Callable[[], grpc.ServerCredentials] | None = None
    authenticator: Authenticator | None = None


UNPROTECTED = Protection()


class Offer(Protocol):
    """Services that go together through one door, and their full names."""

    @property
    def names(self) -> Sequence[str]:
        """What health and reflection know them by."""
        ...

    def add_to(self, server: grpc.aio.Server) -> None:
        """Let the server answer with them."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What the server answers with."""

    jobs: JobService
    admin: AdminService
    workers: WorkerService
    events: EventService

    @property
    def names(self) -> Sequence[str]:
        """All four."""
        return SERVICES

    def add_to(self, server: grpc.aio.Server) -> None:
        """Let the server answer with them."""
        add_JobServiceServicer_to_server(self.jobs, server)
        add_AdminServiceServicer_to_server(self.admin, server)
        add_WorkerServiceServicer_to_server(self.workers, server)
        add_EventServiceServicer_to_server(self.events, server)


class RpcServer:
    """Serves what is offered on ``port`` (0: any free one) of all interfaces.

    The life of it: ``start``, then ``drain``, then ``stop``.
    """

    def __init__(
        self,
        offer: Offer,
        *,
        port: int,
        message_bytes: int,
        name: str = "grpc",
        protection: Protection = UNPROTECTED,
        inner: Sequence[Around] = (),
    ) -> None:
        """``inner`` surrounds the methods, inside of guard and gatekeeper.

        ``name`` is that of its loop.
        """
        self._offer = offer
        self._message_bytes = message_bytes
        self._port = port
        self._protection = protection
        self._inner = inner
        self._gate = Gate()
        self._health = DrainingHealth(self._gate)
        self._server = self._build()
        self._revival = Revival(self, name)
        self.serving = False

    async def start(self) -> int:
        """Begin to serve and return the port. Raises Unavailable when the port is taken."""
        hush_library()
        await self._open(self._server)
        for name in ("", *self._offer.names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._revival.start()
        return self._port

    async def crashed(self, within_s: float) -> BaseException | None:
        """Wait so long for an end that nobody asked for; return its cause, None: all is well."""
        try:
            await self._server.wait_for_termination(within_s)
        except Exception as error:  # noqa: BLE001 - whatever ended the library's loop of calls
            self.serving = False
            return error
        return None

    async def reopen(self) -> None:
        """Serve anew on the same port. Raises Unavailable when it is taken.

        Calls under way on the old server have a second to finish; streams are cut then.
        """
        old, new = self._server, self._build()
        await self._open(new)
        self._server = new
        await old.stop(_LAST_CALLS_S)

    async def drain(self) -> None:
        """Report NOT_SERVING for good, refuse new calls, end the streams."""
        with contextlib.suppress(TimeoutError):
            # Who watches and does not read holds up what is told to all.
            async with asyncio.timeout(_LAST_CALLS_S):
                await self._health.enter_graceful_shutdown()
        self._gate.close()
        await self._revival.stop()

    async def stop(self, grace_s: float) -> None:
        """Let calls under way finish within ``grace_s`` seconds, cut off the rest, and end."""
        begun = time.monotonic()
        self.serving = False
        await self._refuse_waiting(min(grace_s, REFUSE_LIMIT_S))
        await self._server.stop(max(grace_s - (time.monotonic() - begun), 0.0))

    def _build(self) -> grpc.aio.Server:
        authenticator = self._protection.authenticator
        gatekeeper = Gatekeeper(authenticator) if authenticator else None
        door = Door(Guard(self._gate), gatekeeper, self._inner)
        offered = cast("grpc.aio.Server", door)
        self._offer.add_to(offered)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, offered)
        # As enable_server_reflection does, which tells by the type what kind of server it has.
        schemas = reflection.aio.ReflectionServicer(_known(self._offer.names))
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(schemas, offered)
        server = grpc.aio.server(options=_options(self._message_bytes))
        server.add_generic_rpc_handlers((door,))
        return server

    async def _open(self, server: grpc.aio.Server) -> None:
        address, credentials = f"{ALL_INTERFACES}:{self._port}", self._protection.credentials
        try:
            if credentials is None:
                self._port = server.add_insecure_port(address)
            else:
                self._port = server.add_secure_port(address, credentials())
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {address}", reason="PORT_TAKEN") from error
        await server.start()
        self.serving = True

    async def _refuse_waiting(self, limit_s: float) -> None:
        """Give calls that arrived but were not looked at yet their answer.

        gRPC takes calls one by one from a queue of its own, and cuts off (CANCELLED) what is left
        in it when it stops: a caller could not tell that from an end that it asked for itself.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                seen = -1
                while seen != self._gate.refused:
                    seen = self._gate.refused
                    await asyncio.sleep(QUIET_S)


class Revival(Service):
    """Opens the door again when the library has shut it by itself.

    Its loop of calls ends for good at a call whose path is no UTF-8, whoever sent it: without
    this, one stranger could end a server that goes on looking healthy. Door is why the process
    lives on; one that stays shut is no progress, and only a new process may help then (R-7.4).
    """

    def __init__(self, server: RpcServer, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(name, interval_s=0.0, clock=clock)
        self._rpc = server
        self._shut_at: float | None = None

    @property
    def stuck_s(self) -> float | None:
        """Seconds without progress, or with the door shut, when they are too many, else None."""
        shut_s = 0.0 if self._shut_at is None else self._clock.monotonic() - self._shut_at
        return shut_s if shut_s > STALE_BOUNDS * self.bound_s else super().stuck_s

    async def turn(self) -> float | None:
        """Watch for a while; reopen at once when it is needed."""
        cause = await self._rpc.crashed(_WATCH_S)
        if cause is not None:
            if self._shut_at is None:
                self._shut_at = self._clock.monotonic()
                kind = type(cause).__name__  # its text may hold what a caller sent
                _log.error(
                    "the gRPC server ended by itself and is opened again",
                    door=self.name,
                    cause=kind,
                )
            await self._rpc.reopen()
            self._shut_at = None
        return 0.0


def _known(names: Sequence[str]) -> Sequence[str]:
    health = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    return (*names, health, reflection.SERVICE_NAME)


def _options(message_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", message_bytes),
        # A connection that says nothing is cut: 2 minutes are a long time to hold a descriptor.
        ("grpc.server_handshake_timeout_ms", 20_000),
        # Two servers on one port would share its connections at random.
        ("grpc.so_reuseport", 0),
        *PINGS,
        ("grpc.keepalive_permit_without_calls", 1),
        # The default of 5 minutes would cut our own clients off.
        ("grpc.http2.min_ping_interval_without_data_ms", LEAST_S * 1000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", LEAST_S * 1000),
        # Lets long-lived clients find servers added since. Calls under way stay on the old
        # connection for as long as they need: a check-up, a forced deletion. Guard bounds streams.
        ("grpc.max_connection_age_ms", 1_800_000),
    ]
