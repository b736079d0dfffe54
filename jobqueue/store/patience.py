"""How long to wait for an answer: shortly for one that should come soon, longer where it does not.

A connection whose other end is gone without a word looks like a database that is slow. Both are
asked to give up after seconds, and then again. Who does not answer to that is gone: it is cut, and
all others of the pool are doubted with it. The other gets three times as long with each try, and
whoever comes next begins with what it needed.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobqueue.errors import JobQueueError
from jobqueue.store.pool import STATEMENT_TIMEOUT_S, Connection, Pool, check

FIRST_S = 3.0
_GROWTH = 3.0
_GIVEN_UP_WITHIN_S = 1.0


class Patience:
    """Lends connections of a pool, one at a time, for what is safe to repeat."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._took_s = 0.0

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lend a connection for a limited time; what is not done by then raises TimeoutError.

        It is ended in the database, too. A connection that does not say so within a second is cut,
        and each other one of the pool is replaced before its next use.
        """
        async with self._pool.acquire() as connection:
            begun = time.monotonic()
            try:
                async with asyncio.timeout(self._within_s()):
                    yield connection
            except TimeoutError:
                if not await _gives_up(connection):
                    await self._pool.expire_connections()
                raise
            finally:
                self._took_s = time.monotonic() - begun

    def _within_s(self) -> float:
        return min(max(_GROWTH * self._took_s, FIRST_S), STATEMENT_TIMEOUT_S)


async def _gives_up(connection: Connection) -> bool:
    """Tell whether a connection is free of what was asked on it; one that is not is cut.

    To cut it at once would leave the statement: who waits for a lock does not see that nobody
    listens any more, and connections beyond the pool's would wait there, one for each try.
    """
    try:
        await check(connection, _GIVEN_UP_WITHIN_S)
    except JobQueueError:
        return False
    return True
