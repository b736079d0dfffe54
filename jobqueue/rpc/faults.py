"""Errors of ours as gRPC statuses with rich details (R-9.2).

The details travel in a trailer, and a client refuses trailers beyond 8 KiB: whatever a caller
sent, the status stays far below that.
"""

from collections.abc import Iterator

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from jobqueue.domain.limits import MORE
from jobqueue.errors import (
    AlreadyExists,
    FieldViolation,
    Internal,
    InvalidArgument,
    JobQueueError,
    NotFound,
)

DOMAIN = "jobqueue"
_RETRY_AFTER_MS = {"UNAVAILABLE": 1000, "ABORTED": 100}
_MAX_VIOLATIONS = 16
_MAX_TEXT, _MAX_FIELD = 200, 64
_MAX_MESSAGE = 300
"""Bytes, not characters: an emoji has four, which the message is sent in twelve for."""
_CUT = "…"


def to_status(error: JobQueueError) -> status_pb2.Status:
    """Return the status that tells a caller about ``error``: code, message and details."""
    code: int = grpc.StatusCode[error.code].value[0]
    status = status_pb2.Status(code=code, message=_short(error.message, _MAX_MESSAGE))
    status.details.extend(_packed(detail) for detail in _details(error))
    return status


def internal() -> Internal:
    """Return what a caller may know of a fault of ours: that there was one."""
    return Internal("internal error; the server's log has the cause")


def _details(error: JobQueueError) -> Iterator[Message]:
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN)
    if isinstance(error, NotFound | AlreadyExists):
        info.metadata.update(kind=error.kind, name=_short(error.name, _MAX_TEXT))
    yield info
    if isinstance(error, InvalidArgument):
        yield error_details_pb2.BadRequest(field_violations=map(_violation, _first(error)))
    if isinstance(error, NotFound | AlreadyExists):
        yield error_details_pb2.ResourceInfo(
            resource_type=error.kind, resource_name=_short(error.name, _MAX_TEXT)
        )
    if error.code in _RETRY_AFTER_MS:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(_RETRY_AFTER_MS[error.code])
        yield retry


def _first(error: InvalidArgument) -> Iterator[FieldViolation]:
    told, rest = error.violations[:_MAX_VIOLATIONS], error.violations[_MAX_VIOLATIONS:]
    yield from told
    if rest:
        yield MORE if MORE in rest else FieldViolation("", f"and {len(rest)} more")


def _violation(violation: FieldViolation) -> error_details_pb2.BadRequest.FieldViolation:
    return error_details_pb2.BadRequest.FieldViolation(
        field=_short(violation.field, _MAX_FIELD),
        description=_short(violation.description, _MAX_TEXT),
    )


def _packed(detail: Message) -> Any:
    packed = Any()
    packed.Pack(detail)
    return packed


def _short(text: str, max_bytes: int) -> str:
    """Return a text that has so many bytes at most; a mark shows that it was cut."""
    raw = text.encode(errors="replace")
    if len(raw) <= max_bytes:
        return raw.decode()
    return raw[: max_bytes - len(_CUT.encode())].decode(errors="ignore") + _CUT
