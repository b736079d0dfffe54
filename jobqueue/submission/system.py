"""What is asked of the system as a whole."""

import asyncio

from jobqueue.store.faults import retrying, translated
from jobqueue.store.pool import Pool
from jobqueue.store.queues import list_unhandled
from jobqueue.store.statements import statement

_VERSION = statement("get_server_version")
_IDENTITY = statement("identify_database")
_PROBE_TIMEOUT_S = 3.0


class System:
    """Answers for the parts that every server shares."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def unhandled(self) -> list[tuple[str, str | None, int]]:
        """Return (queue, type, how many) of jobs that wait because nobody has a handler."""
        return await retrying(lambda: list_unhandled(self._pool))

    async def database(self) -> str:
        """Return PostgreSQL's version. Raises Unavailable or DeadlineExceeded when it is away."""
        with translated():
            async with asyncio.timeout(_PROBE_TIMEOUT_S):  # the wait for a connection, too
                return str(await self._pool.fetchval(_VERSION))

    async def identity(self) -> str:
        """Return a name that no other database has. Raises Unavailable or DeadlineExceeded."""
        return str(await retrying(lambda: self._pool.fetchval(_IDENTITY, timeout=_PROBE_TIMEOUT_S)))
