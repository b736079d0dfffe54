"""A PostgreSQL of one's own that crashes when told to, and comes back as a primary or a standby."""

import os
import signal
import time
from pathlib import Path

import asyncpg

from jobqueue.embedded.child import Child
from jobqueue.embedded.folder import postmaster_line
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.store.events import start_tail
from jobqueue.store.faults import DRIVER_ERRORS
from jobqueue.store.pool import Pool
from tests.support.waiting import eventually, eventually_sync

_BACK_S = 60.0


class _Postgres(EmbeddedPostgres):
    """Counts as started also when it takes only reading sessions, as a standby."""

    def _await_ready(self, child: Child) -> None:
        deadline = time.monotonic() + _BACK_S
        while postmaster_line(self.data_dir / "data", 7) not in {"ready", "standby"}:
            assert not child.ended.wait(0.02), "it ended"
            assert time.monotonic() < deadline, "it did not start"


class CrashingPostgres:
    """Crashes are told by the epoch of the stream: it proves that recovery was run."""

    def __init__(self, folder: Path) -> None:
        self._server = _Postgres(folder, durable=False)
        self._server.start()
        self.dsn = self._server.dsn

    def close(self) -> None:
        """End it."""
        self._server.stop()

    async def crash_backend(self, pool: Pool, victim: asyncpg.Connection) -> None:
        """Kill the process of one session: all sessions end, and the rest recovers by itself."""
        before = (await start_tail(pool)).epoch
        os.kill(await victim.fetchval("SELECT pg_backend_pid()"), signal.SIGKILL)
        await self._recovered(pool, before)

    async def crash(self, pool: Pool, *, standby: bool = False) -> None:
        """Kill the postmaster and start it again, maybe as a standby of nobody."""
        before = (await start_tail(pool)).epoch
        self._signal_file.unlink(missing_ok=True)
        os.kill(self._server.pid, signal.SIGKILL)
        if standby:
            self._signal_file.touch()
        eventually_sync(self._server.revive, within_s=_BACK_S, what="a new start")
        await self._recovered(pool, before)

    async def promote(self) -> None:
        """Make a standby the primary."""
        connection = await asyncpg.connect(self.dsn)
        assert await connection.fetchval("SELECT pg_promote()")
        await connection.close()

    @property
    def _signal_file(self) -> Path:
        return self._server.data_dir / "data" / "standby.signal"

    async def _recovered(self, pool: Pool, before: str) -> None:
        async def another_epoch() -> bool:
            try:
                return (await start_tail(pool)).epoch != before
            except DRIVER_ERRORS:
                return False

        await eventually(another_epoch, within_s=_BACK_S, what="recovery")
