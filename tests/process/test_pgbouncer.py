"""Server and worker as people run them, with a PgBouncer in transaction mode between."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.errors import DeadlineExceeded, Unavailable
from jobqueue.store.faults import retrying, translated
from jobqueue.store.pool import create_pool
from tests.support.fleet import ENDED, LEFT
from tests.support.pgbouncer import find_pgbouncer
from tests.support.postgres import PooledCluster, database_of, with_database
from tests.support.programs import Program, ServerProgram, WorkerProgram
from tests.support.soundness import assert_sound
from tests.support.store import submit
from tests.support.waiting import eventually

QUEUE, JOBS, MORE = "pooled", 400, 600
SCARCE = 2
"""Connections to PostgreSQL, for a server and a worker that would have a dozen."""
NOT_DONE_ONCE = """
    SELECT job FROM jobqueue.job_event_log
    GROUP BY job HAVING count(*) FILTER (WHERE to_status = 'DONE') <> 1
"""
SESSIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = $1 AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
ASLEEP = """
    FROM pg_stat_activity
    WHERE query = 'SELECT pg_sleep(600)' AND state = 'active' AND datname = current_database()
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest_asyncio.fixture
async def direct(pg: PooledCluster, database: str) -> AsyncIterator[asyncpg.Connection]:
    """A look past PgBouncer."""
    connection = await asyncpg.connect(with_database(pg.direct.dsn, database_of(database)))
    yield connection
    await connection.close()


def server(dsn: str, logs: Path) -> ServerProgram:
    return ServerProgram(dsn, logs, db_pgbouncer="true", scheduler_interval_ms=100)


def worker(dsn: str, logs: Path) -> WorkerProgram:
    flags = ("--handlers", "tests.support.fleet_handlers", "--queues", QUEUE, "--log-level", "info")
    return WorkerProgram(dsn, logs, *flags, db_pgbouncer="true")


async def submit_jobs(address: str) -> None:
    """Submit jobs of which half are due a little later."""
    async with AsyncClient(address) as client:
        await client.create_queue(QUEUE, base_delay_s=0.1, max_delay_s=0.5)
        for delay_s in (None, 0.5):
            job = JobSpec(QUEUE, b"x", type="work", delay_s=delay_s)
            await client.submit_many([job] * (JOBS // 2))


async def ended(conn: asyncpg.Connection, count: int) -> int:
    """Wait until so many jobs have ended; return how many really have."""

    async def look() -> int:
        seen: int = await conn.fetchval(ENDED)
        return seen if seen >= count else 0

    return await eventually(look, within_s=60.0, what=f"the end of {count} jobs")


async def test_all_jobs_are_done_once_though_pgbouncer_and_the_server_are_restarted(
    pg: PooledCluster, database: str, direct: asyncpg.Connection, logs: Path
) -> None:
    with pg.bouncer.limited_to(SCARCE):
        first = server(database, logs)
        programs: list[Program] = [first, worker(database, logs)]
        try:
            for program in programs:
                await asyncio.to_thread(program.ready)
            await submit_jobs(first.address)
            await ended(direct, 50)
            await submit(direct, MORE, queue=QUEUE, type="steady")
            pg.bouncer.kill()
            await eventually(lambda: nobody(direct, database), what="the end of all sessions")
            assert await direct.fetchval(LEFT) >= 50, "PgBouncer is killed too late"
            before = await direct.fetchval(ENDED)
            pg.bouncer.start()
            await ended(direct, before + 50)
            first.send(signal.SIGTERM)
            assert await asyncio.to_thread(first.ended) == 0
            programs.append(await asyncio.to_thread(server(database, logs).ready))
            await ended(direct, JOBS + MORE)
            assert 0 < await direct.fetchval(SESSIONS, database_of(database)) <= SCARCE
        finally:
            for program in programs:
                program.kill()
    assert await direct.fetchval("SELECT count(*) FROM jobqueue.jobs") == JOBS + MORE
    assert await direct.fetch(NOT_DONE_ONCE) == []
    await assert_sound(direct)


async def test_a_statement_that_is_given_up_ends_in_postgresql_too(
    database: str, direct: asyncpg.Connection
) -> None:
    pool = await create_pool(database, size=1, pgbouncer=True)
    asleep = asyncio.create_task(pool.fetchval("SELECT pg_sleep(600)", timeout=5.0))
    await eventually(lambda: direct.fetchval(f"SELECT count(*) = 1 {ASLEEP}"), what="its start")
    with pytest.raises(DeadlineExceeded), translated():
        await asleep
    await eventually(lambda: direct.fetchval(f"SELECT count(*) = 0 {ASLEEP}"), what="its end")
    assert await pool.fetchval("SELECT 1") == 1
    await pool.close()


async def test_sessions_that_postgresql_cut_are_replaced(
    database: str, direct: asyncpg.Connection
) -> None:
    pool = await create_pool(database, size=1, pgbouncer=True)
    asleep = asyncio.create_task(pool.fetchval("SELECT pg_sleep(600)"))
    await eventually(lambda: direct.fetchval(f"SELECT pg_terminate_backend(pid) {ASLEEP}"))
    with pytest.raises(Unavailable), translated():
        await asleep
    assert await retrying(lambda: pool.fetchval("SELECT 1")) == 1
    await pool.close()


async def test_programs_refuse_sessions_that_lose_commits(
    pg: PooledCluster, database: str, conn: asyncpg.Connection, logs: Path
) -> None:
    name = database_of(database)
    await conn.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    past = with_database(pg.direct.dsn, name)  # as if PgBouncer had no connect_query
    programs = (server(past, logs), worker(past, logs))
    try:
        for program in programs:
            assert await asyncio.to_thread(program.ended, 90) == 1
            assert "synchronous_commit is off" in program.text()
    finally:
        for program in programs:
            program.kill()


def test_a_missing_pgbouncer_is_a_skip_and_a_failure_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name, path: None)
    monkeypatch.delenv("JQ_REQUIRE_PGBOUNCER", raising=False)
    with pytest.raises(pytest.skip.Exception):
        find_pgbouncer()
    monkeypatch.setenv("JQ_REQUIRE_PGBOUNCER", "1")
    with pytest.raises(pytest.fail.Exception):
        find_pgbouncer()


async def nobody(conn: asyncpg.Connection, database: str) -> bool:
    return bool(await conn.fetchval(SESSIONS, database_of(database)) == 0)
