"""Wraps every method of ours: refuses when draining, turns errors into statuses, logs faults.

One interceptor, so that no method has error handling of its own and none can forget it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc_status import rpc_status

from jobqueue.errors import JobQueueError
from jobqueue.rpc.access import OPEN
from jobqueue.rpc.faults import internal, to_status
from jobqueue.rpc.gate import Gate
from jobqueue.rpc.handlers import (
    Context,
    Handler,
    MaybeHandler,
    behavior_of,
    request_of,
    with_behavior,
)
from jobqueue.rpc.signals import OK, Call, followed, tell_unknown
from jobqueue.runtime.log import get_logger

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
        if handler is None:
            tell_unknown()
            return None
        # Health answers to the last moment, by its own rules.
        if method.startswith(OPEN):
            return handler
        if handler.response_streaming:
            return self._streaming(handler, method)
        return self._unary(handler, method)

    def _unary(self, handler: Handler, method: str) -> Handler:
        behavior = behavior_of(handler)

        async def guarded(request: Any, context: Context) -> Any:
            with followed(method, context) as call:
                try:
                    self._gate.check()
                    answer = await behavior(request_of(handler, request), context)
                except Exception as error:  # noqa: BLE001 - a caller must get a status for anything
                    return await _abort(context, method, error, call)
                call.code = OK
                return answer

        return with_behavior(handler, guarded, parse=False)

    def _streaming(self, handler: Handler, method: str) -> Handler:
        behavior = behavior_of(handler)

        async def guarded(request: Any, context: Context) -> AsyncIterator[Any]:
            with followed(method, context) as call:
                try:
                    self._gate.check()
                    read = request_of(handler, request)
                    async for response in self._gate.until_closed(behavior(read, context)):
                        yield response
                except Exception as error:  # noqa: BLE001 - a caller must get a status for anything
                    await _abort(context, method, error, call)
                call.code = OK

        return with_behavior(handler, guarded, parse=False)


async def _abort(context: Context, method: str, error: Exception, call: Call) -> None:
    """End the call with the status of ``error``; what we did not expect is logged, not told."""
    if isinstance(error, grpc.aio.AbortError):
        call.aborted(context)
        raise error
    if not isinstance(error, JobQueueError):
        _log.error("a call failed unexpectedly", method=method, error=error)
        error = internal()
    elif error.code == "INTERNAL":
        _log.error("a call failed", method=method, error=error)
    call.code = error.code
    await context.abort_with_status(rpc_status.to_status(to_status(error)))
