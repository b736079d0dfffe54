"""From what a handler returned or raised to an outcome that can be stored (R-3.16, R-9.4).

Total: whatever a handler does, there is an outcome, its text can be stored and its size is capped.
"""

import json
import traceback

from jobqueue.domain.backoff import bounded_delay
from jobqueue.domain.limits import Limits, safe_text
from jobqueue.domain.outcome import Completed, Failed, Outcome, Postponed, Refused
from jobqueue.worker.verdicts import Done, Fail, RetryLater

_NOTHING = Completed()
_FRAMES = 20
"""The innermost frames of a stack trace that are worth storing."""


def outcome_of(value: object, limits: Limits) -> Outcome:
    """Return the outcome of a handler that returned ``value``."""
    if value is None:
        return _NOTHING
    if isinstance(value, (RetryLater, Fail)):
        return outcome_of_error(value, limits)
    if isinstance(value, Done):
        return outcome_of(value.result, limits)
    try:
        raw = _encoded(value)
    except BaseException as error:  # noqa: BLE001 - the value's own code runs here; it may raise anything
        return Failed(safe_text(f"the result is not JSON: {describe(error)}", limits.error_bytes))
    return completed(raw, limits)


def completed(raw: bytes, limits: Limits) -> Completed:
    """Return a success whose result is cut, and marked so, when it is over the limit."""
    return Completed(raw[: limits.result_bytes], truncated=len(raw) > limits.result_bytes)


def outcome_of_error(error: BaseException, limits: Limits) -> Outcome:
    """Return the outcome of a handler that raised ``error``."""
    try:
        return _outcome_of_error(error, limits)
    except BaseException as fault:  # noqa: BLE001 - the error is the handler's own class: any part of it may raise
        text = f"{type(error).__name__}, which cannot be read: {type(fault).__name__}"
        return Failed(safe_text(text, limits.error_bytes))


def _outcome_of_error(error: BaseException, limits: Limits) -> Outcome:
    match error:
        case RetryLater():
            return Postponed(bounded_delay(float(error.delay_s)), _safe(error.why, limits))
        case Fail():
            return Refused(_safe(error.why, limits))
        case _:
            text = f"{describe(error)}{_trace(error)}"
            return Failed(safe_text(text, limits.error_bytes))


def describe(error: BaseException) -> str:
    """Return ``Type: message`` of any exception, also of one whose ``str()`` raises."""
    name = type(error).__name__
    try:
        # Anything longer is cut to 16 KiB later; slicing first keeps a 1 GB message cheap.
        message = str(error)[:65_536]
    except BaseException:  # noqa: BLE001 - even KeyboardInterrupt may come out of a __str__
        return f"{name}: (its text cannot be made)"
    return f"{name}: {message}" if message else name


def _encoded(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return _utf8(value)
    return _utf8(json.dumps(value, allow_nan=False, ensure_ascii=False))


def _utf8(text: str) -> bytes:
    """Lone surrogates become U+FFFD: a result is never lost for them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _safe(why: object, limits: Limits) -> str:
    return safe_text(why if isinstance(why, str) else repr(why), limits.error_bytes)


def _trace(error: BaseException) -> str:
    # The first frame is ours.
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    if frames is None:
        return ""
    try:
        return "\n" + "".join(traceback.format_tb(frames, limit=-_FRAMES)).rstrip()
    except Exception:  # noqa: BLE001 - source files may be gone or unreadable; the message is enough
        return ""
