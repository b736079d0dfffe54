"""asyncpg's errors in our words, by SQLSTATE; and what may be tried again (R-4.12)."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import asyncpg

from jobqueue.errors import Aborted, DeadlineExceeded, Internal, JobQueueError, Unavailable

T = TypeVar("T")

DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    EOFError,
)
"""What asyncpg raises; the others come from the socket."""

TRIES = 3
_BASE_DELAY_S, _MAX_DELAY_S = 0.05, 1.0

# Deadlock and serialization failure: the statement did nothing.
_ROLLED_BACK = {"40001", "40P01"}
_READ_ONLY = "25006"
# Connection lost, server going or starting, session ended for standing still in a transaction or
# outside of one, or for the length of one, too many connections, demoted to read-only.
_GONE = {"57P01", "57P02", "57P03", "25P03", "57P05", "25P04", "53300", _READ_ONLY}
_LOCKED = {"55P03"}
_CANCELLED = {"57014"}
# The statement did nothing, and is not at fault: the database's machine cannot serve it now.
_SPENT = {
    "53000": "is short of a resource",
    "53100": "has no room left on its disk",
    "53200": "is out of memory",
    "58000": "has trouble with its machine",
    "58030": "cannot read or write its files",
}
# A statement whose parallel worker was ended before it began (PostgreSQL, parallel.c), a database
# that takes no connections: only the server's own words tell which.
_NOT_READY = "55000"
# Raised by our own submit_jobs.
_REJECTED = "JQ001"


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error of the server, else ''."""
    return getattr(error, "sqlstate", None) or ""


def connection_lost(error: BaseException) -> bool:
    """Tell whether the connection is of no more use, so that a write's outcome is unknown."""
    if isinstance(error, ValueError):
        # A value that the driver cannot send (also an InterfaceError) cannot be sent again either.
        return False
    state = sqlstate(error)
    if not state and isinstance(error, DRIVER_ERRORS):
        # InternalClientError too: what a statement meets whose connection is cut as it is sent.
        return True
    return state in _GONE or state.startswith("08")


def out_of_time(error: BaseException) -> bool:
    """Tell whether a statement took longer than it may, rather than a socket."""
    return isinstance(error, TimeoutError) and error.errno is None


def demoted(error: BaseException) -> bool:
    """Tell whether the server takes no writes, as one does that is no longer the primary."""
    return sqlstate(error) == _READ_ONLY


def is_transient(error: BaseException) -> bool:
    """Tell whether trying again may work: lost connection, deadlock, serialization, timeout."""
    if isinstance(error, Unavailable | TimeoutError):
        return True
    return connection_lost(error) or sqlstate(error) in _ROLLED_BACK


def translate(error: BaseException) -> JobQueueError:
    """Return the error of ours that says what ``error`` means to a caller."""
    state = sqlstate(error)
    if isinstance(error, JobQueueError):
        return error
    if isinstance(error, TimeoutError) or state in _CANCELLED:
        return DeadlineExceeded("the database did not answer in time")
    if state in _LOCKED:
        return Aborted("a transaction holds it; try again", reason="LOCKED")
    if state in _ROLLED_BACK:
        return Aborted("it was moving; try again", reason="CONFLICT")
    if connection_lost(error) or state in _SPENT or state == _NOT_READY:
        return Unavailable(f"the database {_lack(error)}")
    return Internal(f"the database refused the statement ({state or type(error).__name__})")


def _lack(error: BaseException) -> str:
    state = sqlstate(error)
    if state == _NOT_READY:
        return f"is not ready: {error.args[0]}"
    return _SPENT.get(state, "cannot be reached")


def rejected_item(error: BaseException) -> tuple[int, str] | None:
    """Return (index, outcome) of the item that made an atomic batch fail, else None."""
    if sqlstate(error) != _REJECTED:
        return None
    ordinal, outcome = str(getattr(error, "detail", "")).split()
    return int(ordinal) - 1, outcome


@contextmanager
def translated() -> Iterator[None]:
    """Raise the errors of the driver inside as errors of ours."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error) from error


async def retrying(attempt: Callable[[], Awaitable[T]], tries: int = TRIES) -> T:
    """Await ``attempt()`` up to ``tries`` times while its errors are transient.

    Waits a jittered backoff between tries. ``attempt`` must be safe to repeat after an unclear
    commit. Raises the last error, translated.
    """
    for number in range(1, tries + 1):
        try:
            return await attempt()
        except DRIVER_ERRORS as error:
            if number == tries or not is_transient(error):
                raise translate(error) from error
            await asyncio.sleep(backoff_s(number))
    raise AssertionError("tries must be at least 1")


async def retrying_told(attempt: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
    """Do as ``retrying``; return also whether there was more than one try.

    Then an earlier one may have been done though its answer was lost.
    """
    tries = 0

    async def ask() -> T:
        nonlocal tries
        tries += 1
        return await attempt()

    answer = await retrying(ask)
    return answer, tries > 1


def backoff_s(number: int) -> float:
    """Return the jittered seconds to wait after try ``number`` (0, 1, 2, …) failed."""
    ceiling = min(_BASE_DELAY_S * 2.0 ** min(number, 10), _MAX_DELAY_S)
    return ceiling * (0.5 + random.random() / 2)  # noqa: S311 - jitter, not a secret
