"""gRPC health whose watchers do not keep a draining server alive."""

import asyncio
from typing import Any, TypeAlias

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1._async import HealthServicer

from jobqueue.rpc.gate import Gate

_LAST_WORD_S = 0.2
"""After the gate closed, a watcher has this long to hear NOT_SERVING."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class DrainingHealth(HealthServicer):  # type: ignore[misc] # the library has no types
    """The library's servicer, but a watch ends when the gate closes.

    A watch has no end of its own; left alone, one client would use up the whole grace.
    """

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    async def Watch(  # noqa: N802 - gRPC gives the name
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> None:
        """Send the status now and after each change, until the gate closes."""
        watching = asyncio.create_task(super().Watch(request, context))
        closed = asyncio.create_task(self._gate.wait_closed())
        try:
            await asyncio.wait({watching, closed}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({watching}, timeout=_LAST_WORD_S)
        finally:
            watching.cancel()
            closed.cancel()
            await asyncio.gather(watching, closed, return_exceptions=True)
