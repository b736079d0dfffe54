"""Surrounds every method of ours: refuses when draining, turns errors into statuses, logs faults.

One place, so that no method has error handling of its own and none can forget it.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_status import rpc_status

from jobqueue.errors import DeadlineExceeded, FieldViolation, InvalidArgument, JobQueueError
from jobqueue.rpc.faults import internal, to_status
from jobqueue.rpc.gate import Gate
from jobqueue.rpc.handlers import (
    Context,
    Handler,
    as_stream,
    behavior_of,
    request_of,
    with_behavior,
)
from jobqueue.rpc.signals import OK, Call, short_name
from jobqueue.rpc.sizes import check_size
from jobqueue.runtime.log import get_logger

STREAM_S = 2_400.0
"""Then a caller has to ask anew, and prove again who it is. Jobs and scalers have ends of their own
before that, which are no error."""

_TO_THEIR_ENDS = frozenset({"AdminService/RunDoctor"})
"""Streams of work that has an end and would have to begin from nothing."""

_REQUEST_S = 5.0
"""For the request of a method that is open to strangers: a few bytes."""

_log = get_logger(__name__)


class Guard:
    """What stands around each method, outermost."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def around(self, handler: Handler, method: str) -> Handler:
        """Return the method's handler with the guard around it."""
        if handler.response_streaming:
            return self._streaming(handler, method)
        return self._unary(handler, method)

    def _unary(self, handler: Handler, method: str) -> Handler:
        behavior, name = behavior_of(handler), short_name(method)

        async def guarded(request: Any, context: Context) -> Any:
            with Call(name, context) as call:
                try:
                    self._gate.check()
                    answer = await behavior(_read(handler, name, request), context)
                except Exception as error:  # noqa: BLE001 - a caller must get a status for anything
                    return await _abort(context, method, error, call)
                call.code = OK
                return answer

        return with_behavior(handler, guarded, parse=False)

    def _streaming(self, handler: Handler, method: str) -> Handler:
        behavior, name = behavior_of(handler), short_name(method)

        async def guarded(request: Any, context: Context) -> AsyncIterator[Any]:
            with Call(name, context) as call:
                try:
                    self._gate.check()
                    answers = behavior(_read(handler, name, request), context)
                    async for response in self._gate.until_closed(answers, _life_s(name)):
                        yield response
                except Exception as error:  # noqa: BLE001 - a caller must get a status for anything
                    await _abort(context, method, error, call)
                call.code = OK

        return with_behavior(handler, guarded, parse=False)


def _read(handler: Handler, name: str, request: Any) -> Any:
    """Return what the handler is called with. Raises ResourceExhausted, and as ``request_of``."""
    if not handler.request_streaming:
        check_size(name, request)
    return request_of(handler, request)


def _life_s(name: str) -> float | None:
    """Return how many seconds one stream of a method may last; None: as many as it needs."""
    spread = random.uniform(0.98, 1.0)  # noqa: S311 - spreads load only
    return None if name in _TO_THEIR_ENDS else STREAM_S * spread


def reading(handler: Handler) -> Handler:
    """Surround a method of one request that answers by its own rules, to strangers, too.

    Only what is no message, or comes too slowly, is refused. To the library it takes a stream: it
    would receive a single request whole before it asks anybody, and hold megabytes for as long as
    a stranger likes.
    """
    behavior = behavior_of(handler)

    async def read(requests: AsyncIterator[bytes], context: Context) -> Any:
        try:
            message = request_of(handler, await _only(requests))
        except JobQueueError as error:
            await context.abort_with_status(rpc_status.to_status(to_status(error)))
        return await behavior(message, context)

    return as_stream(handler, read)


async def _only(requests: AsyncIterator[bytes]) -> bytes:
    try:
        async with asyncio.timeout(_REQUEST_S):
            async for request in requests:
                return request
    except TimeoutError as error:
        raise DeadlineExceeded("the request did not come in time") from error
    raise InvalidArgument([FieldViolation("request", "there is none")])


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
