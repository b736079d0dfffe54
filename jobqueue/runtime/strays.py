"""Errors that nobody caught become log lines instead of text on stderr (R-7.2)."""

import sys
import threading
from types import TracebackType
from typing import Any

from jobqueue.runtime.log import get_logger

_log = get_logger(__name__)


def catch_strays() -> None:
    """Log what ends the main thread, another thread, or a finalizer. For programs of ours only."""
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    _log.error("the program ends over an uncaught error", error=error)


def _uncaught_in_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_value is not None and not issubclass(found.exc_type, SystemExit):
        name = found.thread.name if found.thread else "unknown"
        _log.error("a thread ended over an uncaught error", thread=name, error=found.exc_value)


def _unraisable(found: "sys.UnraisableHookArgs") -> None:
    # The object itself is not shown: its text may hold a payload.
    where: Any = getattr(found.object, "__qualname__", type(found.object).__name__)
    error = found.exc_value or found.exc_type()
    _log.error(found.err_msg or "an error was ignored", where=where, error=error)
