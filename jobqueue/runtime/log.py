"""How our code writes log lines, and what surrounds them (R-7.2).

Our lines carry context as keyword arguments: ``log.info("claimed", queue="mail", count=3)``.
They travel as ordinary ``logging`` records, so that a host application, a test and our own
programs can each decide what becomes of them; ``log_lines`` is what our programs decide.
"""

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TypeAlias

from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock

TRACE = 5
"""Below debug: a line for each statement, and all that libraries say."""

_NOTHING: Mapping[str, object] = {}
_around: ContextVar[Mapping[str, object]] = ContextVar("log_context", default=_NOTHING)
_process: dict[str, object] = {}
_sources: list[Callable[[], Mapping[str, object]]] = []


class Logger:
    """Writes lines with context. Never raises for what it is given to write."""

    def __init__(self, target: logging.Logger, context: Mapping[str, object] | None = None) -> None:
        self._target = target
        self._context = dict(context or {})

    def bind(self, **context: object) -> "Logger":
        """Return a logger whose every line carries ``context`` too."""
        return Logger(self._target, self._context | context)

    def writes_debug(self) -> bool:
        """Return whether debug lines come out: ask before making the context of very many."""
        return self._target.isEnabledFor(logging.DEBUG)

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


def write_relayed(
    logger: str,
    level: int,
    message: str,
    context: Mapping[str, object],
    exception: Mapping[str, object] | None,
) -> None:
    """Write a line that another process of this program has sent, as if it came about here."""
    target = logging.getLogger(logger)
    if target.isEnabledFor(level):
        target.log(level, message, extra={"context": context, "relayed_exception": exception})


Surrounding: TypeAlias = Mapping[str, object]
"""Context of the lines that are written here and now."""


def begin_context(context: Surrounding) -> Token[Surrounding]:
    """Put ``context`` on every line written from now on, by whatever logger, until it is ended.

    Follows tasks and threads as contextvars do. ``LogContext`` does both ends of it; this is for
    who does it for each of very many jobs.
    """
    outer = _around.get()
    return _around.set({**outer, **context} if outer else context)


end_context: Callable[[Token[Surrounding]], None] = _around.reset
"""Takes what ``begin_context`` returned, in the same task."""


class LogContext:
    """Puts context on every line written inside: ``with LogContext(job_id=…)``."""

    def __init__(self, **context: object) -> None:
        self._context = context
        self._token: Token[Surrounding] | None = None

    def __enter__(self) -> None:
        """Begin."""
        self._token = begin_context(self._context)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        assert self._token is not None
        end_context(self._token)


def name_process(**context: object) -> None:
    """Put context on every line of this process, such as the worker's id."""
    _process.update(context)


def process_context() -> dict[str, object]:
    """Return what ``name_process`` was given."""
    return dict(_process)


def add_log_source(source: Callable[[], Mapping[str, object]]) -> Callable[[], None]:
    """Ask ``source`` for more context with each line; the returned function ends that."""
    _sources.append(source)
    return lambda: _sources.remove(source)


def surrounding() -> dict[str, object]:
    """Return the context of a line that is written here and now."""
    context = {**_process, **_around.get()}
    for source in _sources:
        context.update(source())
    return context


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
