"""Lets calls run in a context that is made from their metadata, such as the caller's trace."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from jobqueue.rpc.handlers import Context, Handler, behavior_of, with_behavior

Enter: TypeAlias = Callable[[Sequence[tuple[str, str | bytes]]], AbstractContextManager[None]]
"""Makes the context of one call."""


class CallContext:
    """Surrounds every call that has one request and one answer."""

    def __init__(self, enter: Enter) -> None:
        self._enter = enter

    def around(self, handler: Handler, _method: str) -> Handler:
        """Return the method's handler, run inside the context."""
        if handler.request_streaming or handler.response_streaming:
            return handler
        behavior = behavior_of(handler)

        async def surrounded(request: Any, context: Context) -> Any:
            metadata: Any = context.invocation_metadata() or ()
            with self._enter(metadata):
                return await behavior(request, context)

        return with_behavior(handler, surrounded)
