"""How large a request may be, looked at before it is read: one of millions takes gigabytes."""

from collections.abc import Iterator

from google.protobuf.message import DecodeError

from jobqueue.domain.limits import MAX_HELD, MIB
from jobqueue.errors import ResourceExhausted

SMALL = MIB
"""Nobody needs more for what is neither submitted nor reported; and in a message no larger than
this nothing needs to be counted."""

_LARGE = frozenset(
    {
        "JobService/SubmitJob",
        "JobService/SubmitJobs",
        "WorkerService/Register",
        "WorkerService/StreamJobs",
        "WorkerService/StartJobs",
        "WorkerService/Heartbeat",
        "WorkerService/ReportResults",
        "WorkerService/ReportProgress",
        "WorkerService/ReleaseJobs",
    }
)
"""Requests that may be as large as a message."""

_MOST_ELEMENTS = 4 * MAX_HELD
"""Of a large request, at its top: more than any has, whose two lists may each name all that a
worker holds. Validators know better, but see objects; a message has room for millions of them."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_MORE = 0x80
"""The bit of a byte behind which a number goes on."""
_LONGEST = 10
"""Bytes of a number."""


def check_size(name: str, request: bytes) -> None:
    """Refuse what no honest caller sends to a method (Service/Method). Raises ResourceExhausted."""
    if len(request) <= SMALL:
        return
    if name not in _LARGE:
        fault = f"a request of {name} has {SMALL} bytes at most, this one {len(request)}"
        raise ResourceExhausted(fault, reason="REQUEST_TOO_LARGE")
    if _has_more(request, _MOST_ELEMENTS):
        fault = f"no request of {name} has more than {_MOST_ELEMENTS} items"
        raise ResourceExhausted(fault, reason="REQUEST_TOO_LARGE")


def _has_more(message: bytes, most: int) -> bool:
    try:
        return any(number > most for number, _ in enumerate(_ends(message), 1))
    except (DecodeError, IndexError):
        return False  # it is no message: whoever reads it says so


def _ends(message: bytes) -> Iterator[int]:
    """Yield the end of each element at the top (protobuf.dev/programming-guides/encoding)."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _BYTES:
            length, at = _varint(message, at)
            at += length
        elif kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise DecodeError("a group, or no kind at all")
        yield at


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place behind it."""
    value = 0
    for place in range(_LONGEST):
        byte = message[at + place]
        value |= (byte & ~_MORE) << 7 * place
        if byte < _MORE:
            return value, at + place + 1
    raise DecodeError("a number of more than ten bytes")
