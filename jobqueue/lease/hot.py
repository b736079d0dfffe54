"""One connection that is always there, or being replaced.

A worker has two: one for claims and starts, which hears of new jobs too, one for settles. So the
database claims while it settles (docs/adr/0021). Each connection more would be one that the
database holds open for every worker process.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from jobqueue.errors import Aborted, DeadlineExceeded, Unavailable
from jobqueue.lease.settings import LeaseSettings
from jobqueue.store import pool
from jobqueue.store.faults import TRIES, backoff_s, is_transient, translated
from jobqueue.store.pool import Connection

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

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return ``await work(connection)``.

        Raises Unavailable when there is no connection, DeadlineExceeded when the work took too
        long, and what the work raises.
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
        # Whoever waits for the connection sends its statement before this answer is gone through:
        # the database works while we do.
        await asyncio.sleep(0)
        return answer

    async def close(self) -> None:
        """Cut the connection; a later ``run`` opens a new one."""
        async with self._lock:
            self._cut()

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
            if self._connected_before:
                self._on_reconnect()
            self._connected_before = True
        return self._connection

    def _doubt(self, connection: Connection, error: BaseException) -> None:
        """Keep a connection only after an answer of a healthy server: an error of our input."""
        unsure = not isinstance(error, Exception) or isinstance(error, TRANSIENT)
        if connection.is_closed() or unsure or is_transient(error):
            self._cut()

    def _cut(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()
