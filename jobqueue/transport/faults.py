"""A failed call as one of ``jobqueue.errors``: canonical code plus rich details."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from jobqueue.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    JobQueueError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)

_DETAILS_KEY = "grpc-status-details-bin"

_PLAIN: dict[grpc.StatusCode, type[JobQueueError]] = {
    grpc.StatusCode.ABORTED: Aborted,
    # Somebody other than this caller ended the call: a server or proxy that is going away.
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
}


@dataclass(slots=True)
class _Details:
    reason: str | None = None
    violations: list[FieldViolation] = field(default_factory=list)
    kind: str = ""
    name: str = ""


def translate(error: grpc.RpcError, address: str) -> JobQueueError:
    """Return the error of ours that says the same, with the server's message and reason.

    ``address`` is named when there was no answer from a server at all.
    """
    code, message = error.code(), error.details() or ""
    details = _details(error)
    ours = _build(code, message, details)
    if details.reason is not None:
        ours.reason = details.reason
        return ours
    if code in _NO_ANSWER:
        return type(ours)(_NO_ANSWER[code].format(address=address, message=_short(message)))
    return ours


_NO_ANSWER = {
    grpc.StatusCode.UNAVAILABLE: "cannot reach {address}: {message}",
    grpc.StatusCode.CANCELLED: "the call to {address} was cut off: {message}",
    grpc.StatusCode.DEADLINE_EXCEEDED: "no answer from {address} in time",
}


def _build(code: grpc.StatusCode, message: str, details: _Details) -> JobQueueError:
    ours: JobQueueError
    if code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE}:
        return InvalidArgument(details.violations or [FieldViolation("request", message)])
    if code is grpc.StatusCode.NOT_FOUND:
        ours = NotFound(details.kind or "resource", details.name)
    elif code is grpc.StatusCode.ALREADY_EXISTS:
        ours = AlreadyExists(details.kind or "resource", details.name, message)
    elif code in _PLAIN:
        ours = _PLAIN[code](message)
    else:
        return Internal(f"{code.name}: {message}" if message else code.name)
    if message:
        # The server's words may say more than ours, such as which item of a batch it was.
        ours.message, ours.args = message, (message,)
    return ours


def _details(error: grpc.RpcError) -> _Details:
    found = _Details()
    for packed in _rich_status(error).details:
        info = error_details_pb2.ErrorInfo()
        bad = error_details_pb2.BadRequest()
        resource = error_details_pb2.ResourceInfo()
        if packed.Unpack(info):
            found.reason = info.reason
        elif packed.Unpack(bad):
            found.violations += [
                FieldViolation(v.field, v.description) for v in bad.field_violations
            ]
        elif packed.Unpack(resource):
            found.kind, found.name = resource.resource_type, resource.resource_name
    return found


def _rich_status(error: grpc.RpcError) -> status_pb2.Status:
    """Return the rich status; an empty one when there is none or it cannot be read."""
    # grpc gives a tuple of pairs, grpc.aio a Metadata of pairs, either of them None at times.
    pairs = cast(Iterable[tuple[str, str | bytes]] | None, error.trailing_metadata())
    for key, value in pairs or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                break
    return status_pb2.Status()


# All that a client hears when a server that wants TLS, or another certificate, hangs up.
_HUNG_UP = "it hung up at once; it may want TLS, or a client certificate that it trusts"
_HANDSHAKES = {
    "certificate has expired": "the server's certificate has expired",
    "CERTIFICATE_VERIFY_FAILED": "no CA that is trusted here has signed the server's certificate",
    "Hostname Verification": "the server's certificate is for another host name",
    "WRONG_VERSION_NUMBER": "the server does not speak TLS",
    "create security handshaker": "the client's certificate and key do not go together, or its CA"
    " file holds no certificate",
    "Socket closed": _HUNG_UP,
    # The same, when the client was still speaking; through a proxy it is the rule.
    "Connection reset by peer": _HUNG_UP,
    "Broken pipe": _HUNG_UP,
}
"""What the library says when no connection came about → what that means."""


def _short(message: str) -> str:
    """Return the last cause of a failed connection, in words of ours where it is a known one."""
    preamble, _, cause = message.rpartition("last error: ")
    known = (words for said, words in _HANDSHAKES.items() if preamble and said in cause)
    return next(known, unquote(cause.removeprefix("UNKNOWN: ")))
