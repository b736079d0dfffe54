"""What becomes of log records in our programs: one line each, all of one shape (R-7.2).

Built on the standard library alone: the processes that run handlers and renew leases start often
and must start fast. Nothing here raises for what it is given to write.
"""

import json
import logging
import os
import select
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import UnsupportedOperation
from typing import Any, Literal, TextIO, TypeAlias

from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.runtime.log import TRACE, Quiet, surrounding
from jobqueue.runtime.log_values import as_text, error_field, masked, safe_json, shortened

Format: TypeAlias = Literal["json", "text"]

LINE_BYTES = 4096
"""What a pipe takes in one piece, so that several processes may write to the same one."""

_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_WORDS = {number: word for word, number in _LEVELS.items()} | {logging.CRITICAL: "error"}
_PROMISED = ("timestamp", "level", "service", "message", "logger")
_RESERVED = frozenset({*_PROMISED, "exception"})
_ROOMS = (1000, 200, 40)
_FULL_PIPE_S = 1.0

LIBRARIES = frozenset(
    {"alembic", "asyncio", "asyncpg", "grpc", "opentelemetry", "redis", "sqlalchemy", "uvicorn"}
)
"""Their complaints come once per try during an outage, and their debug lines once per call."""

_LEAST_LEVEL = {"sqlalchemy": logging.WARNING}
"""At info it writes every statement of a migration."""


@dataclass(frozen=True, slots=True)
class LogSetup:
    """How a program writes its lines; a process that it starts may be given the same."""

    service: str
    level: str = "info"
    form: Format = "json"


def configure_logging(setup: LogSetup, stream: TextIO | int | None = None) -> None:
    """Send the lines of this program and of its libraries to ``stream`` (stdout).

    The level is trace, debug, info, warn or error; KeyError otherwise. At debug, libraries write
    from info on; at trace they write everything. The form json writes one
    object a line with timestamp, level, service and message; text is for people. May be called
    again.
    """
    handler = LineHandler(setup, sys.stdout if stream is None else stream)
    level = _LEVELS[setup.level]
    logging.addLevelName(TRACE, "TRACE")
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # What libraries find worth a line of debug buries ours: it is for the finest level alone.
    for library in LIBRARIES:
        least = _LEAST_LEVEL.get(library, logging.INFO)
        logging.getLogger(library).setLevel(TRACE if level == TRACE else max(level, least))


def logging_setup() -> LogSetup | None:
    """Return how this process writes its lines; None when that is somebody else's business."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            return handler.setup
    return None


class LineHandler(logging.Handler):
    """Writes each record at once, in one piece. A stream that is closed or full loses lines."""

    def __init__(self, setup: LogSetup, stream: TextIO | int | None) -> None:
        super().__init__()
        self.setup = setup
        self._stream, self._fd = _opened(stream)
        form = JsonFormatter if setup.form == "json" else TextFormatter
        self.setFormatter(form(setup.service))
        self.addFilter(Throttle())

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, or nothing when that cannot be done."""
        try:
            self._write(self.format(record) + "\n")
        except (OSError, ValueError):
            return  # nobody reads any more; the program has better things to do than to end

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
        elif self._fd is not None:
            self._write_whole(self._fd, text)

    @staticmethod
    def _write_whole(fd: int, text: str) -> None:
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        while left:
            try:
                left = left[os.write(fd, left) :]
            except BlockingIOError:
                if not select.select([], [fd], [], _FULL_PIPE_S)[1]:
                    raise


class JsonFormatter(logging.Formatter):
    """One JSON object a line, ASCII only, so that no byte of it can break a reader."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record, without its newline; at most ``LINE_BYTES`` with it."""
        line: dict[str, object] = {
            "timestamp": _timestamp(record),
            "level": level_word(record.levelno),
            "service": self._service,
            "message": message_of(record),
            "logger": record.name,
        }
        line.update(_context(record))
        if (exception := exception_of(record)) is not None:
            line["exception"] = exception
        return _fitting({key: masked(value) for key, value in line.items()})


class TextFormatter(logging.Formatter):
    """A line for people: time, level, message, then the context as key=value."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of one record, with its stack below it."""
        context = {key: as_text(masked(value)) for key, value in _context(record).items()}
        pairs = "".join(f" {key}={value}" for key, value in context.items())
        word, message = level_word(record.levelno).upper(), masked(message_of(record))
        head = f"{_timestamp(record)} {word:<5} {self._service}: {message}{pairs}"
        if (exception := exception_of(record)) is not None:
            head = f"{head}\n{json.dumps(masked(exception), indent=2, ensure_ascii=False)}"
        return head


class Throttle(logging.Filter):
    """Lets one complaint of a library pass per cause and 10 s, and counts what it held back.

    Lines of applications and our own pass: those who write them decide how often.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._quiet = Quiet(clock=clock)
        self._held: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        if record.levelno < logging.WARNING or record.name.partition(".")[0] not in LIBRARIES:
            return True
        cause = f"{record.name} {_pattern(record)} {type(_error(record)).__name__}"
        if not self._quiet.admits(cause):
            self._held[cause] += 1
            return False
        if held := self._held.pop(cause, 0):
            record.context = {**own_context(record), "held_back": held}
        return True


def level_word(number: int) -> str:
    """Return trace, debug, info, warn or error for any ``logging`` level."""
    return next((w for n, w in sorted(_WORDS.items(), reverse=True) if number >= n), "trace")


def _opened(stream: TextIO | int | None) -> tuple[TextIO | None, int | None]:
    """Return a stream, or better its descriptor: no buffer tears a line, nothing is left over.

    A program that was started without a stdout has None, and loses its lines.
    """
    if stream is None or isinstance(stream, int):
        return None, stream
    try:
        return None, stream.fileno()
    except (OSError, UnsupportedOperation):
        return stream, None


def _timestamp(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def message_of(record: logging.LogRecord) -> str:
    """Return the text of a record, whatever its arguments are."""
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a library's arguments may not fit its own text
        return _pattern(record)


def _pattern(record: logging.LogRecord) -> str:
    """Return the text before its arguments are put in: what a cause is told apart by."""
    return as_text(record.msg)


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def exception_of(record: logging.LogRecord) -> dict[str, Any] | None:
    """Return the error of a record as a field, also of one that another process has sent."""
    if (error := _error(record)) is not None:
        return error_field(error)
    relayed = getattr(record, "relayed_exception", None)
    return dict(relayed) if isinstance(relayed, Mapping) else None


def own_context(record: logging.LogRecord) -> Mapping[str, object]:
    """Return what whoever wrote a record has said beside its text."""
    own = getattr(record, "context", None)
    return own if isinstance(own, Mapping) else {}


def _context(record: logging.LogRecord) -> dict[str, object]:
    context = {**surrounding(), **own_context(record)}
    return {f"{key}_" if key in _RESERVED else str(key): value for key, value in context.items()}


def _fitting(line: Mapping[str, Any]) -> str:
    """Return a line that fits, cut where it is longest; it says so itself."""
    text = safe_json(line)
    for room in _ROOMS:
        if len(text) < LINE_BYTES:
            return text
        cut = {key: shortened(value, room) for key, value in line.items()}
        text = safe_json(cut | {"truncated": True})
    if len(text) < LINE_BYTES:
        return text
    least = {key: shortened(line[key], _ROOMS[-1]) for key in _PROMISED}
    return safe_json(least | {"truncated": True})
