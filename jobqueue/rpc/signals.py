"""What happened at the gRPC door, for those who count it (R-7.1)."""

import time
from dataclasses import dataclass
from typing import Self, cast

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
DEADLINE_SLACK_S = 0.25
"""How long before its deadline a call that its caller breaks off counts as overdue.

A caller whose deadline has come sends what a cancelling one sends (RST_STREAM), and its clock
began before ours by the time that the request was on its way.
"""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call is over, ``seconds`` after it began; of a stream, that is its whole life.

    ``method`` is Service/Method without the package, ``status_code`` the name of its code.
    """

    method: str
    status_code: str
    seconds: float


CALL_ENDED: Signal[CallEnded] = Signal("call_ended")


class Call:
    """A call under way, whose end is signalled. Who leaves it without a word was cancelled."""

    __slots__ = ("_begun", "_context", "_method", "code")

    def __init__(self, method: str, context: Context) -> None:
        self.code = CANCELLED
        self._method = method
        self._context = context
        self._begun = time.monotonic()

    def aborted(self, context: Context) -> None:
        """Take the code that the method itself gave the context."""
        # A number, whatever the types say.
        self.code = _NAMES.get(cast("int", context.code()), grpc.StatusCode.UNKNOWN.name)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Signal the end."""
        if self.code == CANCELLED and self._overdue():
            self.code = DEADLINE_EXCEEDED
        CALL_ENDED.emit(CallEnded(self._method, self.code, time.monotonic() - self._begun))

    def _overdue(self) -> bool:
        # Without a deadline there is None, whatever the types say.
        left_s = cast("float | None", self._context.time_remaining())
        return left_s is not None and left_s <= DEADLINE_SLACK_S


def tell_unknown() -> None:
    """Say that somebody called what we do not have."""
    CALL_ENDED.emit(CallEnded(UNKNOWN_METHOD, grpc.StatusCode.UNIMPLEMENTED.name, 0.0))


def short_name(method: str) -> str:
    """Return ``JobService/SubmitJob`` for ``/jobqueue.v1.JobService/SubmitJob``."""
    service, _, name = method.lstrip("/").rpartition("/")
    return f"{service.rpartition('.')[2]}/{name}"
