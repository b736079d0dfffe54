"""Method handlers of any of the four kinds, made anew around another behavior."""

from typing import Any, TypeAlias

import grpc

# Messages of any method: grpc types handlers by the messages, interceptors are for all of them.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
MaybeHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

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

    Without ``parse`` it gets requests as bytes: who will refuse them need not read them.
    """
    make: Any = _MAKERS[handler.request_streaming, handler.response_streaming]
    reader = handler.request_deserializer if parse else None
    made: Handler = make(behavior, reader, handler.response_serializer)
    return made
