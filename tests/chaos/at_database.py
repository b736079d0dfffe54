"""Accidents of PostgreSQL: sessions, statements, locks, restarts, refusals."""

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import asyncpg

from jobqueue.store.pool import Connection
from tests.chaos.scene import OTHERS_FAULT, POSTGRES, READY_S, Action, Scene
from tests.chaos.system import LEASE_S, OURS, PROGRAMS
from tests.support.waiting import eventually

_MET_S = 15.0
"""Within this time programs meet what is in their way; both refusals last a second at least."""
_LASTS_S = 1.0
_READ_ONLY, _FULL = asyncpg.ReadOnlySQLTransactionError, asyncpg.TooManyConnectionsError
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
        begun = self._logged()

        async def said() -> bool:
            asked.update(row["pid"] for row in await db.fetch(_CANCEL, OURS, waiting))
            log = self._system.postgres_log(begun)
            lines = [line for line in log.splitlines() if _CANCELLED in line]
            return any(f" [{pid} " in line for pid in asked for line in lines)

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
        """Let every new transaction be refused its writes, as after a failover, until one was."""
        async with self._alone():
            begun = self._logged()
            await self._alter("SET default_transaction_read_only = on")
            try:
                await asyncio.sleep(_LASTS_S)
                return await self._is_met(_READ_ONLY, begun)
            finally:
                await eventually(self._writable, within_s=READY_S, what="writes")
                self._is_back()

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
        """End the connections of the programs and take all there are, until one was refused."""
        async with self._alone(), contextlib.AsyncExitStack() as taken:
            begun = self._logged()
            first = await taken.enter_async_context(self._system.looking())
            await first.fetchval(_TERMINATE, OURS, "%")

            async def taken_again() -> None:
                with contextlib.suppress(_FULL):
                    await taken.enter_async_context(self._system.looking())

            try:
                met = await self._is_met(_FULL, begun, taken_again)
                await asyncio.sleep(_LASTS_S)
                return met
            finally:
                self._is_back()

    async def _is_met(
        self,
        refusal: type[asyncpg.PostgresError],
        begun: int,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> bool:
        """Wait until a program was refused something."""
        code = refusal.sqlstate

        async def met() -> bool:
            if meanwhile is not None:
                await meanwhile()
            return meets(code, self._system.postgres_log(begun))

        return await eventually(met, within_s=_MET_S, what=f"a program that meets {code}")

    def _logged(self) -> int:
        """Return how many bytes PostgreSQL's log has."""
        return len(self._system.postgres_log().encode())

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


def meets(sqlstate: str, log: str) -> bool:
    """Tell whether a program was told this by PostgreSQL: that we were is no proof."""
    return re.search(rf" \[\d+ {PROGRAMS} \S+ {sqlstate}\] (ERROR|FATAL): ", log) is not None
