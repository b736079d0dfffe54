"""One connection that is always there, or being replaced.

A worker has two: one for claims and starts, which hears of new jobs too, one for settles. So the
database claims while it settles (docs/adr/0021). Each connection more would be one that the
database holds open for every worker process.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from jobqueue.errors import Aborted, DeadlineExceeded, JobQueueError, Unavailable
from jobqueue.lease.settings import LeaseSettings
from jobqueue.store import pool
from jobqueue.store.faults import TRIES, backoff_s, is_transient, translated
from jobqueue.store.pool import Connection, check

T = TypeVar("T")

TRANSIENT = (Unavailable, DeadlineExceeded, Aborted)
"""Trying again may work; after the first two nothing is known about what a write did."""


async def retried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Await ``attempt()``, up to three times over transient errors. It must be safe to repeat."""
    for number in range(1, TRIES):
        try:
            return await attempt()
        except TRANSIENT:
            await asyncio.sleep(backoff_s(number))
    return await attempt()


IDLE_S = 60.0
"""After so long without use a connection is asked whether its peer is still there: what lies on the
way may have forgotten it, and says so to nobody."""

_CHECK_S = 3.0

Connect = Callable[[], Awaitable[Connection]]
"""Opens a connection, in a time that it bounds itself."""


def connecting(dsn: str, settings: LeaseSettings, name: str) -> Connect:
    """Return what opens a connection that hears of nothing."""
    return partial(
        pool.connect,
        dsn,
        connect_timeout_s=settings.connect_timeout_s,
        pgbouncer=settings.pgbouncer,
        application_name=name,
    )


class HotConnection:
    """Runs work on one connection, one piece at a time, each within ``timeout_s`` seconds.

    Pieces have their turn in the order in which they came.

    A connection that failed in a way that leaves its state in doubt is cut, not closed: a peer
    that is gone would never answer. ``on_reconnect`` hears of every connection but the first.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        timeout_s: float,
        on_reconnect: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._timeout_s = timeout_s
        self._on_reconnect = on_reconnect
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._connected_before = False
        self._used_at = time.monotonic()

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return ``await work(connection)``.

        Raises Unavailable when there is no connection, for whatever reason, DeadlineExceeded when
        the work took too long, and what the work raises.
        """
        async with self._lock:
            with translated():
                connection = await self._connected()
                try:
                    async with asyncio.timeout(self._timeout_s):
                        answer = await work(connection)
                except BaseException as error:
                    self._doubt(connection, error)
                    raise
            self._used_at = time.monotonic()
        # Whoever waits for the connection sends its statement before this answer is gone through:
        # the database works while we do.
        await asyncio.sleep(0)
        return answer

    async def prove(self) -> None:
        """Have a connection that is not known to be bad. Raises Unavailable when there is none."""
        if self._connection is None or self._connection.is_closed():
            async with self._lock:
                await self._connected()

    async def close(self) -> None:
        """Cut the connection; a later ``run`` opens a new one."""
        async with self._lock:
            self._cut()

    async def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and time.monotonic() - self._used_at >= IDLE_S:
            with contextlib.suppress(JobQueueError):  # it is cut then, and replaced
                await check(connection, min(_CHECK_S, self._timeout_s))
        if connection is None or connection.is_closed():
            connection = self._connection = await self._open()
            self._used_at = time.monotonic()
        return connection

    async def _open(self) -> Connection:
        try:
            connection = await self._connect()
        except TRANSIENT:
            raise
        except JobQueueError as error:  # a password that was changed: no work is at fault for it
            raise Unavailable(
                f"no connection to the database: {error.__cause__ or error}"
            ) from error
        if self._connected_before:
            self._on_reconnect()
        self._connected_before = True
        return connection

    def _doubt(self, connection: Connection, error: BaseException) -> None:
        """Keep a connection only after an answer of a healthy server: an error of our input."""
        unsure = not isinstance(error, Exception) or isinstance(error, TRANSIENT)
        if connection.is_closed() or unsure or is_transient(error):
            self._cut()

    def _cut(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()
