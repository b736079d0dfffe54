"""One log format for our own lines and for every library's (R-7.2).

Our lines carry context as keyword arguments: ``log.info("claimed", queue="mail", count=3)``.
They travel as ordinary ``logging`` records, so that a host application, a test and our own
programs can each decide what becomes of them. Built on the standard library alone: the floor of
the house depends on no vendor.
"""

import io
import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TextIO, TypeAlias

from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock

TRACE = 5
"""Below debug: one line per statement, claim or renewal."""

Format: TypeAlias = Literal["json", "text"]

_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_WORDS = {number: word for word, number in _LEVELS.items()} | {logging.CRITICAL: "error"}
_RESERVED = frozenset({"timestamp", "level", "service", "message", "logger", "exception"})


class Logger:
    """Writes lines with context. Never raises for what it is given to write."""

    def __init__(self, target: logging.Logger, context: Mapping[str, object] | None = None) -> None:
        self._target = target
        self._context = dict(context or {})

    def bind(self, **context: object) -> "Logger":
        """Return a logger whose every line carries ``context`` too."""
        return Logger(self._target, self._context | context)

    def trace(self, message: str, **context: object) -> None:
        """Write at the finest level."""
        self._write(TRACE, message, context)

    def debug(self, message: str, **context: object) -> None:
        """Write what helps to find a fault."""
        self._write(logging.DEBUG, message, context)

    def info(self, message: str, **context: object) -> None:
        """Write what an operator may want to know."""
        self._write(logging.INFO, message, context)

    def warning(self, message: str, **context: object) -> None:
        """Write what an operator should look at some day."""
        self._write(logging.WARNING, message, context)

    def error(self, message: str, *, error: BaseException | None = None, **context: object) -> None:
        """Write what is broken; the stack trace of ``error`` goes with it."""
        self._write(logging.ERROR, message, context, error)

    def _write(
        self,
        level: int,
        message: str,
        context: Mapping[str, object],
        error: BaseException | None = None,
    ) -> None:
        if self._target.isEnabledFor(level):
            extra = {"context": {**self._context, **context}}
            # Passed as an argument: a message may hold a percent sign.
            self._target.log(level, "%s", message, exc_info=error, extra=extra, stacklevel=3)


def get_logger(name: str) -> Logger:
    """Return the logger of one module; ``name`` is its ``__name__``."""
    return Logger(logging.getLogger(name))


def configure_logging(
    service: str,
    level: str = "info",
    form: Format = "json",
    stream: TextIO | None = None,
) -> None:
    """Send the lines of this program and of its libraries to ``stream`` (stdout).

    ``level`` is trace, debug, info, warn or error; KeyError otherwise. ``form`` json writes one
    object a line with timestamp, level, service and message; text is for people. May be called
    again.
    """
    target = stream or sys.stdout
    if isinstance(target, io.TextIOWrapper):
        target.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(target)
    handler.setFormatter(JsonFormatter(service) if form == "json" else TextFormatter(service))
    logging.addLevelName(TRACE, "TRACE")
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])


class JsonFormatter(logging.Formatter):
    """One JSON object a line, ASCII only, so that no byte of it can break a reader."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record, without its newline."""
        line: dict[str, object] = {
            "timestamp": _timestamp(record),
            "level": level_word(record.levelno),
            "service": self._service,
            "message": record.getMessage(),
            "logger": record.name,
        }
        line.update(_context(record))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, skipkeys=True)


class TextFormatter(logging.Formatter):
    """A line for people: time, level, message, then the context as key=value."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of one record, with its stack trace below it."""
        pairs = "".join(f" {key}={value}" for key, value in _context(record).items())
        word = level_word(record.levelno).upper()
        head = f"{_timestamp(record)} {word:<5} {self._service}: {record.getMessage()}{pairs}"
        return f"{head}\n{self.formatException(record.exc_info)}" if record.exc_info else head


class Quiet:
    """Admits one line per cause and period, so that an outage is no flood of lines."""

    def __init__(self, period_s: float = 10.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self._period_s = period_s
        self._clock = clock
        self._last: dict[str, float] = {}

    def admits(self, cause: str) -> bool:
        """Return whether a line about ``cause`` may be written now, and count it if so."""
        now = self._clock.monotonic()
        # Causes may be texts without bound; forget those that could be written again anyway.
        self._last = {c: at for c, at in self._last.items() if now - at < self._period_s}
        if cause in self._last:
            return False
        self._last[cause] = now
        return True


def level_word(number: int) -> str:
    """Return trace, debug, info, warn or error for any ``logging`` level."""
    return next((w for n, w in sorted(_WORDS.items(), reverse=True) if number >= n), "trace")


def _timestamp(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _context(record: logging.LogRecord) -> dict[str, object]:
    context = getattr(record, "context", None)
    if not isinstance(context, Mapping):
        return {}
    return {f"{key}_" if key in _RESERVED else str(key): value for key, value in context.items()}
