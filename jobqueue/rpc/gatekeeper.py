"""Lets a call pass when its caller is known and may make it (R-9.1)."""

from typing import Any, NoReturn

import grpc

from jobqueue.errors import JobQueueError, PermissionDenied
from jobqueue.rpc.access import needed_role
from jobqueue.rpc.auth import Authenticator
from jobqueue.rpc.handlers import Context, Handler, MaybeHandler, refusing
from jobqueue.runtime.log import Quiet, get_logger

_log = get_logger(__name__)


class Gatekeeper:
    """Decides once, before the request is read; an accepted stream runs to its end.

    The guard around a refusal turns it into a status.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._quiet = Quiet()

    def refusal(self, handler: Handler, details: grpc.HandlerCallDetails) -> MaybeHandler:
        """Return what refuses this call in the handler's place, None when it may pass."""
        try:
            self._check(details.method, details.invocation_metadata or ())
        except JobQueueError as error:
            return self._refusing(handler, details.method, error)
        return None

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
