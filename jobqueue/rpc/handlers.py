"""Method handlers of any of the four kinds, made anew around another behavior."""

from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from jobqueue.errors import FieldViolation, InvalidArgument

# Messages of any method: grpc types handlers by the messages, these functions are for all of them.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
MaybeHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Reader: TypeAlias = Callable[[bytes], Any]
Around: TypeAlias = Callable[[Handler, str], Handler]
"""Surrounds a handler, given the method (``/package.Service/Method``) it is for."""

_MAKERS = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}
"""(does the request stream, does the response) → what makes such a handler."""


def behavior_of(handler: Handler) -> Any:
    """Return what the handler does with a request and a context."""
    if handler.request_streaming:
        return handler.stream_stream if handler.response_streaming else handler.stream_unary
    return handler.unary_stream if handler.response_streaming else handler.unary_unary


def with_behavior(handler: Handler, behavior: Any, *, parse: bool = True) -> Handler:
    """Return a handler of the same kind that does something else.

    Without ``parse`` it gets requests as bytes, for ``request_of``.
    """
    make: Any = _MAKERS[handler.request_streaming, handler.response_streaming]
    reader = handler.request_deserializer if parse else None
    made: Handler = make(behavior, reader, handler.response_serializer)
    return made


def request_of(handler: Handler, request: Any) -> Any:
    """Return what the handler is called with: a message, or a stream of them, from bytes.

    Raises InvalidArgument, a stream when it comes to it, for bytes that are no message of the
    method. The library would end such a call with a stack trace in the log and a Python name in the
    answer.
    """
    read = handler.request_deserializer
    if read is None:
        return request
    return _messages(read, request) if handler.request_streaming else _message(read, request)


async def _messages(read: Reader, requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _message(read, request)


def _message(read: Reader, request: bytes) -> Any:
    try:
        return read(request)
    except DecodeError as error:
        fault = "is not a message of this method"
        raise InvalidArgument([FieldViolation("request", fault)]) from error


def refusing(handler: Handler, refuse: Callable[[Context], NoReturn]) -> Handler:
    """Return a handler that ends every call by what ``refuse`` raises, its request unread.

    To the library it takes a stream, whatever the method takes: it would receive a single request
    whole before it asks anybody, and so hold megabytes for callers that nobody knows.
    """

    async def one(_requests: Any, context: Context) -> Any:
        refuse(context)

    async def stream(_requests: Any, context: Context) -> AsyncIterator[Any]:
        yield refuse(context)

    return as_stream(handler, stream if handler.response_streaming else one)


def as_stream(handler: Handler, behavior: Any) -> Handler:
    """Return a handler that takes a stream of bytes, whatever the method takes."""
    make: Any = _MAKERS[True, handler.response_streaming]
    made: Handler = make(behavior, None, handler.response_serializer)
    return made
