"""The one handler that gRPC asks for methods. What surrounds a method is built once, not per call.

grpc.aio builds the whole chain of interceptors anew for every call, a handler and two coroutines
for each; so there are none.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import grpc

from jobqueue.rpc.access import OPEN
from jobqueue.rpc.gatekeeper import Gatekeeper
from jobqueue.rpc.guard import Guard, reading
from jobqueue.rpc.handlers import Around, Handler, MaybeHandler
from jobqueue.rpc.signals import tell_unknown


class Door(grpc.GenericRpcHandler):
    """Takes services as a server does, and answers for all of them.

    It registers none of their methods with the server's C core. For each registered method
    grpc.aio keeps a request for a call pending in the core. When its loop of calls crashes (see
    Revival) it frees what those requests point to, and the core then writes into memory that
    Python has given to others: any stranger could kill the process. The one generic request is
    the one that has just come back, so nothing dangles. It is also cheaper: with registered
    methods the library waits anew on all of them after every call.
    """

    def __init__(
        self, guard: Guard, gatekeeper: Gatekeeper | None = None, inner: Sequence[Around] = ()
    ) -> None:
        """``inner`` surrounds the methods, the first outermost, inside of the guard."""
        self._guard = guard
        self._gatekeeper = gatekeeper
        self._inner = inner
        self._offered: list[grpc.GenericRpcHandler] = []
        self._ways: dict[str, _Way] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Let callers reach what these know."""
        self._offered.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, object]) -> None:
        """Nothing: generated code gives the same methods as generic handlers first."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> MaybeHandler:
        """Return what answers this call: the method, a refusal, or None when there is no such."""
        method = handler_call_details.method
        way = self._ways.get(method) or self._found(handler_call_details)
        if way is None:
            tell_unknown()
            return None
        if self._gatekeeper is None or method.startswith(OPEN):
            return way.guarded
        refused = self._gatekeeper.refusal(way.plain, handler_call_details)
        return way.guarded if refused is None else self._guard.around(refused, method)

    def _found(self, details: grpc.HandlerCallDetails) -> "_Way | None":
        answers = (offered.service(details) for offered in self._offered)
        plain = next(filter(None, answers), None)
        if plain is None:
            return None  # and not remembered: callers may send any name
        way = self._ways[details.method] = _Way(plain, self._surrounded(plain, details.method))
        return way

    def _surrounded(self, handler: Handler, method: str) -> Handler:
        # Health answers to the last moment, by its own rules.
        if method.startswith(OPEN):
            return reading(handler)
        for around in reversed(self._inner):
            handler = around(handler, method)
        return self._guard.around(handler, method)


class _Way(NamedTuple):
    """A method by itself, and with all that surrounds it."""

    plain: Handler
    guarded: Handler
