"""Accidents of PostgreSQL: sessions, statements, locks, restarts, refusals."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import asyncpg

from jobqueue.store.pool import Connection
from tests.chaos.scene import OTHERS_FAULT, POSTGRES, READY_S, Action, Scene
from tests.chaos.system import LEASE_S, OURS
from tests.support.waiting import eventually

_REFUSALS, _FULL_WITHIN_S = 10, 10.0
_SESSIONS = """
    FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> $1
"""
_TERMINATE = f"""
    SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) {_SESSIONS}
    AND application_name LIKE $2
"""
_CANCEL = f"""
    SELECT pid {_SESSIONS} AND state = 'active' AND (wait_event_type = 'Lock' OR NOT $2)
    AND pg_cancel_backend(pid)
"""
_ONE = f"SELECT pid {_SESSIONS} ORDER BY random() LIMIT 1"
_WAITING = f"SELECT count(*) {_SESSIONS} AND wait_event_type = 'Lock'"
_LOCK = "LOCK TABLE jobqueue.{} IN ACCESS EXCLUSIVE MODE"
_EVENTS = "SELECT coalesce(max(eid), 0) FROM jobqueue.job_event_log"
_CANCELLED = "ERROR:  canceling statement due to user request"


class AtDatabase:
    """Strikes PostgreSQL; what takes all of it away happens once at a time."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._system = scene.system

    def actions(self) -> Mapping[str, Action]:
        """Return all, by kind."""
        return {
            "cut": self.cut,
            "cancel": self.cancel,
            "lock": self.lock,
            "long_read": self.long_read,
            "crash": self.crash,
            "restart": self.restart,
            "read_only": self.read_only,
            "no_connections": self.no_connections,
        }

    async def cut(self, who: str) -> bool:
        """Terminate sessions as soon as there are any: of all, or of whose name begins so."""

        async def terminated() -> bool:
            return bool(await db.fetchval(_TERMINATE, OURS, "%" if who == "all" else f"{who}%"))

        async with self._system.looking() as db:
            return await eventually(terminated, within_s=5.0, what=f"a session of {who}")

    async def cancel(self, how: str) -> bool:
        """Cancel statements: while they wait for a lock, or whichever run when one looks."""
        async with self._alone(), self._system.looking() as db:
            if how == "running":
                return await self._cancelled(db, waiting=False)
            async with self._locked("leases"):
                return await self._cancelled(db, waiting=True)

    async def _cancelled(self, db: Connection, *, waiting: bool) -> bool:
        """Cancel until the server says of a session that was asked that its statement ended so."""
        asked: set[int] = set()
        begun = len(self._system.postgres_log().encode())

        async def said() -> bool:
            asked.update(row["pid"] for row in await db.fetch(_CANCEL, OURS, waiting))
            log = self._system.postgres_log(begun)
            return any(f"[{pid}] {_CANCELLED}" in log for pid in asked)

        return await eventually(said, what="a cancelled statement")

    async def lock(self, table: str) -> bool:
        """Hold a table as VACUUM FULL does, for up to two leases, and until others wait for it."""

        async def waited_for() -> bool:
            return bool(await db.fetchval(_WAITING, OURS))

        async with self._alone(), self._system.looking() as db, self._locked(table):
            await asyncio.sleep(self._scene.rng.uniform(0.5, 2.0) * LEASE_S)
            return await eventually(waited_for, within_s=10.0, what="somebody who waits")

    @asynccontextmanager
    async def _locked(self, table: str) -> AsyncIterator[None]:
        async with self._system.looking() as holder, holder.transaction():
            await holder.execute(_LOCK.format(table))
            yield

    async def long_read(self, _: str) -> bool:
        """Keep a snapshot for five leases, while the record goes on behind it."""
        async with self._alone(), self._system.looking() as db:
            async with db.transaction(isolation="repeatable_read"):
                before = await db.fetchval(_EVENTS)
                await asyncio.sleep(5 * LEASE_S)
                if await db.fetchval(_EVENTS) != before:
                    return False
            return bool(await db.fetchval(_EVENTS) > before)

    async def crash(self, _: str) -> bool:
        """SIGKILL one session's process: PostgreSQL ends all others, and recovers."""
        async with self._alone():
            async with self._system.looking() as db:
                pid = await db.fetchval(_ONE, OURS)
            if pid is None:
                return False
            os.kill(pid, signal.SIGKILL)

            async def told() -> bool:
                return f"(PID {pid}) was terminated by signal 9" in self._system.postgres_log()

            await eventually(told, what="the crash in PostgreSQL's log")
            await eventually(self._lets_in, within_s=READY_S, what="PostgreSQL after a crash")
            self._is_back()
        return True

    async def restart(self, how: str) -> bool:
        """Stop PostgreSQL, fast or at once, and start it again."""
        number = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how]
        async with self._alone():
            before = self._system.postgres.pid
            await asyncio.to_thread(self._system.restart_postgres, number)
            self._is_back()
            return self._system.postgres.pid != before

    async def read_only(self, _: str) -> bool:
        """Let every new transaction be refused its writes for a while, as after a failover."""
        async with self._alone():
            await self._alter("SET default_transaction_read_only = on")
            try:
                refused = await self._refuses_writes()
                await asyncio.sleep(1.0)
            finally:
                await eventually(self._writable, within_s=READY_S, what="writes")
            self._is_back()
            return refused

    async def _refuses_writes(self) -> bool:
        async with self._system.looking() as db:
            try:
                await db.execute("DELETE FROM jobqueue.workers WHERE false")
            except asyncpg.ReadOnlySQLTransactionError:
                return True
        return False

    async def _writable(self) -> bool:
        with contextlib.suppress(*OTHERS_FAULT):
            await self._alter("RESET default_transaction_read_only")
            return True
        return False

    async def _alter(self, change: str) -> None:
        async with self._system.looking() as db:
            await db.execute("SET default_transaction_read_only = off")
            await db.execute(f"ALTER SYSTEM {change}")
            await db.execute("SELECT pg_reload_conf()")

    async def no_connections(self, _: str) -> bool:
        """Take all connections that there are, and end those of the programs, for a while."""
        refused = 0
        async with self._alone(), contextlib.AsyncExitStack() as taken:
            first = await taken.enter_async_context(self._system.looking())
            await first.fetchval(_TERMINATE, OURS, "%")
            until = time.monotonic() + _FULL_WITHIN_S
            while time.monotonic() < until and refused < _REFUSALS:
                try:
                    await taken.enter_async_context(self._system.looking())
                except asyncpg.TooManyConnectionsError:
                    refused += 1
                    await asyncio.sleep(0.05)
        self._is_back()
        return refused > 0

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._scene.victims.one(POSTGRES):
            yield

    async def _lets_in(self) -> bool:
        with contextlib.suppress(*OTHERS_FAULT):
            async with self._system.looking():
                return True
        return False

    def _is_back(self) -> None:
        self._scene.journal.back.append(time.time())
