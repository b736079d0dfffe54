"""Wraps every method of ours: refuses when draining, turns errors into statuses, logs faults.

One interceptor, so that no method has error handling of its own and none can forget it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc
from grpc_status import rpc_status

from jobqueue.errors import JobQueueError
from jobqueue.rpc.faults import internal, to_status
from jobqueue.rpc.gate import Gate
from jobqueue.runtime.log import get_logger

# Messages of any method: grpc types handlers by the messages, the guard is for all of them.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
MaybeHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Unary: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
Stream: TypeAlias = Callable[[Any, Context], AsyncIterator[Any]]

OWN_METHODS = "/jobqueue."
"""Health and reflection answer to the last moment, by their own rules."""

_log = get_logger(__name__)


class Guard(grpc.aio.ServerInterceptor):
    """The one interceptor of the server."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[MaybeHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> MaybeHandler:
        """Return the method's handler with the guard around it."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or not method.startswith(OWN_METHODS):
            return handler
        if handler.response_streaming:
            return self._streaming(handler, method)
        return self._unary(handler, method)

    def _unary(self, handler: Handler, method: str) -> Handler:
        inner = handler.stream_unary if handler.request_streaming else handler.unary_unary
        behavior = cast(Unary, inner)  # the stubs know only the threaded kind

        async def guarded(request: Any, context: Context) -> Any:
            try:
                self._gate.check()
                return await behavior(request, context)
            except Exception as error:  # noqa: BLE001 - a caller must get a status for anything
                return await _abort(context, method, error)

        make = (
            grpc.stream_unary_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        return make(guarded, handler.request_deserializer, handler.response_serializer)

    def _streaming(self, handler: Handler, method: str) -> Handler:
        inner = handler.stream_stream if handler.request_streaming else handler.unary_stream
        behavior = cast(Stream, inner)

        async def guarded(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                self._gate.check()
                async for response in self._gate.until_closed(behavior(request, context)):
                    yield response
            except Exception as error:  # noqa: BLE001 - a caller must get a status for anything
                await _abort(context, method, error)

        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
        )
        return make(guarded, handler.request_deserializer, handler.response_serializer)


async def _abort(context: Context, method: str, error: Exception) -> None:
    """End the call with the status of ``error``; what we did not expect is logged, not told."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, JobQueueError):
        _log.error("a call failed unexpectedly", method=method, error=error)
        error = internal()
    elif error.code == "INTERNAL":
        _log.error("a call failed", method=method, error=error)
    await context.abort_with_status(rpc_status.to_status(to_status(error)))
