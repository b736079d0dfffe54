"""The gRPC server: services, health, reflection, limits, and its orderly end."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from jobqueue.domain.limits import Limits
from jobqueue.errors import Unavailable
from jobqueue.rpc.admin_service import AdminService
from jobqueue.rpc.auth import Authenticator
from jobqueue.rpc.event_service import EventService
from jobqueue.rpc.gate import Gate
from jobqueue.rpc.gatekeeper import Gatekeeper
from jobqueue.rpc.guard import Guard
from jobqueue.rpc.health import DrainingHealth
from jobqueue.rpc.job_service import JobService
from jobqueue.rpc.worker_service import WorkerService
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


@dataclass(frozen=True, slots=True)
class Protection:
    """Who gets in. None: plaintext, and everyone who can connect."""

    credentials: grpc.ServerCredentials | None = None
    authenticator: Authenticator | None = None


UNPROTECTED = Protection()


@dataclass(frozen=True, slots=True)
class Services:
    """What the server answers with."""

    jobs: JobService
    admin: AdminService
    workers: WorkerService
    events: EventService


class RpcServer:
    """Serves the services on ``port`` (0: any free one) of ``host``.

    The life of it: ``start``, then ``drain``, then ``stop``.
    """

    def __init__(
        self,
        services: Services,
        limits: Limits,
        *,
        port: int,
        host: str = ALL_INTERFACES,
        protection: Protection = UNPROTECTED,
        inner: Sequence[grpc.aio.ServerInterceptor] = (),
    ) -> None:
        """``inner`` surrounds the methods, inside of guard and gatekeeper."""
        self._gate = Gate()
        self._health = DrainingHealth(self._gate)
        self._address = f"{host}:{port}"
        self._credentials = protection.credentials
        self._server = grpc.aio.server(
            interceptors=[*_interceptors(self._gate, protection), *inner], options=_options(limits)
        )
        add_JobServiceServicer_to_server(services.jobs, self._server)
        add_AdminServiceServicer_to_server(services.admin, self._server)
        add_WorkerServiceServicer_to_server(services.workers, self._server)
        add_EventServiceServicer_to_server(services.events, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(_names(), self._server)

    async def start(self) -> int:
        """Begin to serve and return the port. Raises Unavailable when the port is taken."""
        try:
            port = self._open()
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {self._address}", reason="PORT_TAKEN") from error
        for name in ("", *SERVICES):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()
        return port

    def _open(self) -> int:
        if self._credentials is None:
            return self._server.add_insecure_port(self._address)
        return self._server.add_secure_port(self._address, self._credentials)

    async def drain(self) -> None:
        """Report NOT_SERVING for good, refuse new calls, end the streams."""
        await self._health.enter_graceful_shutdown()
        self._gate.close()

    async def stop(self, grace_s: float) -> None:
        """Let calls under way finish within ``grace_s`` seconds, cut off the rest, and end."""
        begun = time.monotonic()
        await self._refuse_waiting(min(grace_s, REFUSE_LIMIT_S))
        await self._server.stop(max(grace_s - (time.monotonic() - begun), 0.0))

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


def _interceptors(gate: Gate, protection: Protection) -> Sequence[grpc.aio.ServerInterceptor]:
    """Return them from the outside in."""
    if protection.authenticator is None:
        return [Guard(gate)]
    return [Guard(gate), Gatekeeper(protection.authenticator)]


def _names() -> Sequence[str]:
    health = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    return (*SERVICES, health, reflection.SERVICE_NAME)


def _options(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        # Two servers on one port would share its connections at random.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Clients may ping every 20 s; the default of 5 minutes would cut ours off.
        ("grpc.http2.min_ping_interval_without_data_ms", 20_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
        # Lets long-lived clients find servers added since.
        ("grpc.max_connection_age_ms", 1_800_000),
        ("grpc.max_connection_age_grace_ms", 300_000),
    ]
