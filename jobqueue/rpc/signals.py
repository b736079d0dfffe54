"""What happened at the gRPC door, for those who count it (R-7.1)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import grpc

from jobqueue.rpc.handlers import Context
from jobqueue.runtime.signals import Signal

OK, CANCELLED, DEADLINE_EXCEEDED = (
    code.name
    for code in (
        grpc.StatusCode.OK,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    )
)
_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}
UNKNOWN_METHOD = "unknown"
"""Callers may send any name; all that we do not have are one."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call is over, ``seconds`` after it began; of a stream, that is its whole life.

    ``method`` is Service/Method without the package, ``status_code`` the name of its code.
    """

    method: str
    status_code: str
    seconds: float


CALL_ENDED: Signal[CallEnded] = Signal("call_ended")


@dataclass(slots=True)
class Call:
    """A call under way. Who leaves it without a word was cancelled."""

    code: str = CANCELLED

    def aborted(self, context: Context) -> None:
        """Take the code that the method itself gave the context."""
        # A number, whatever the types say.
        self.code = _NAMES.get(cast("int", context.code()), grpc.StatusCode.UNKNOWN.name)


@contextmanager
def followed(method: str, context: Context) -> Iterator[Call]:
    """Signal the end of the call that the block serves."""
    call, begun = Call(), time.monotonic()
    try:
        yield call
    finally:
        # Without a deadline there is None, whatever the types say.
        left_s = cast("float | None", context.time_remaining())
        if call.code == CANCELLED and left_s is not None and left_s <= 0:
            call.code = DEADLINE_EXCEEDED
        seconds = time.monotonic() - begun
        CALL_ENDED.emit(CallEnded(_short(method), call.code, seconds))


def tell_unknown() -> None:
    """Say that somebody called what we do not have."""
    CALL_ENDED.emit(CallEnded(UNKNOWN_METHOD, grpc.StatusCode.UNIMPLEMENTED.name, 0.0))


def _short(method: str) -> str:
    """Return ``JobService/SubmitJob`` for ``/jobqueue.v1.JobService/SubmitJob``."""
    service, _, name = method.lstrip("/").rpartition("/")
    return f"{service.rpartition('.')[2]}/{name}"
