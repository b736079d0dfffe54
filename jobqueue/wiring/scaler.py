"""The door for KEDA, where it is on (R-10.2). Apart from the gRPC door: KEDA has no credentials."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc

from jobqueue.config.model import Settings
from jobqueue.domain.limits import KIB, Limits
from jobqueue.externalscaler import externalscaler_pb2
from jobqueue.externalscaler.externalscaler_pb2_grpc import add_ExternalScalerServicer_to_server
from jobqueue.rpc.scaler_service import ScalerService
from jobqueue.rpc.server import RpcServer
from jobqueue.runtime.log import get_logger
from jobqueue.submission.demand import Demand
from jobqueue.wiring.protection import Doorkeeping

_MESSAGE_BYTES = 64 * KIB
"""A trigger is a few words: a ScaledObject with more would not fit into its HPA either."""
_STREAMS_LIMIT_S, _CALLS_LIMIT_S = 0.5, 1.0
"""What streams and calls get to end in. Calls take no longer than a look at memory."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Offer:
    """The one service of this door."""

    scaler: ScalerService

    @property
    def names(self) -> Sequence[str]:
        """Only it."""
        return (externalscaler_pb2.DESCRIPTOR.services_by_name["ExternalScaler"].full_name,)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Let the server answer with it."""
        add_ExternalScalerServicer_to_server(self.scaler, server)


class ScalerDoor:
    """Serves KEDA on `scaler.port`; does nothing where that is 0.

    The life of it: ``listen``, ``start``, ``drain``, ``stop``.
    """

    def __init__(
        self, settings: Settings, limits: Limits, door: Doorkeeping, look: Callable[[], None]
    ) -> None:
        """``look`` has the figures read soon; it must not block."""
        self._demand = Demand(look)
        self._service = ScalerService(self._demand, limits)
        self._rpc = _server(settings.scaler.port, self._service, door)

    def listen(self) -> None:
        """Take note of the figures from the first look on."""
        if self._rpc is not None:
            self._demand.listen()

    async def start(self) -> None:
        """Begin to serve. Raises Unavailable when the port is taken."""
        if self._rpc is not None:
            _log.info("the scaler answers", scaler_port=await self._rpc.start())

    async def drain(self) -> None:
        """End the streams well, refuse new calls."""
        await self._service.end_streams(_STREAMS_LIMIT_S)
        if self._rpc is not None:
            await self._rpc.drain()

    async def stop(self) -> None:
        """Close the port."""
        if self._rpc is not None:
            await self._rpc.stop(_CALLS_LIMIT_S)


def _server(port: int, service: ScalerService, door: Doorkeeping) -> RpcServer | None:
    if not port:
        return None
    return RpcServer(
        _Offer(service),
        port=port,
        message_bytes=_MESSAGE_BYTES,
        name="scaler",
        protection=door.of_scaler,
    )
