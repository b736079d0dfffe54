"""Lets a call pass when its caller is known and may make it (R-9.1)."""

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc

from jobqueue.errors import JobQueueError, PermissionDenied
from jobqueue.rpc.access import OPEN, needed_role
from jobqueue.rpc.auth import Authenticator
from jobqueue.rpc.handlers import Context, Handler, MaybeHandler, refusing
from jobqueue.runtime.log import Quiet, get_logger

_log = get_logger(__name__)


class Gatekeeper(grpc.aio.ServerInterceptor):
    """Decides once, before the request is read; an accepted stream runs to its end.

    Sits inside the guard, which turns the refusal into a status.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._quiet = Quiet()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[MaybeHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> MaybeHandler:
        """Return the method's handler, or one that refuses."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(OPEN):
            return handler
        try:
            self._check(method, handler_call_details.invocation_metadata or ())
        except JobQueueError as error:
            return self._refusing(handler, method, error)
        return handler

    def _check(self, method: str, metadata: Any) -> None:
        caller = self._authenticator.caller(metadata)
        needed = needed_role(method)
        if needed is None:
            raise PermissionDenied("no role may call this method", reason="NO_ROLE")
        if not caller.may(needed):
            has = ", ".join(sorted(caller.roles)) or "none"
            fault = f"this call needs the role {needed}; {caller.name} has {has}"
            raise PermissionDenied(fault, reason="ROLE_MISSING")

    def _refusing(self, handler: Handler, method: str, error: JobQueueError) -> Handler:
        def refuse(context: Context) -> NoReturn:
            self._say(method, error, context)
            raise error

        return refusing(handler, refuse)

    def _say(self, method: str, error: JobQueueError, context: Context) -> None:
        if self._quiet.admits(f"{error.reason} {method}"):
            _log.warning(
                "a call was refused",
                method=method,
                reason=error.reason,
                cause=error.message,
                peer=context.peer(),
            )
