"""Connections: the settings that statements rely on, and what they mean when they fail."""

import asyncio

import asyncpg
import pytest

from jobqueue.errors import Aborted, DeadlineExceeded, FailedPrecondition, Unavailable
from jobqueue.store.faults import retrying, translated
from jobqueue.store.pool import (
    Connection,
    Db,
    Pool,
    connect,
    create_pool,
    limit_lock_waits,
    transaction,
)
from tests.store.conftest import Connect
from tests.support.postgres import Cluster, database_of, with_database
from tests.support.store import add_queue
from tests.support.waiting import HANG_S, eventually

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


async def settings(db: Db) -> tuple[str, ...]:
    names = ("plan_cache_mode", "jit", "synchronous_commit", "TimeZone")
    return tuple([str(await db.fetchval("SELECT current_setting($1)", name)) for name in names])


async def test_every_connection_plans_by_real_sizes(db: Connection, pool: Pool) -> None:
    expected = ("force_custom_plan", "off", "on", "UTC")
    assert await settings(db) == await settings(pool) == expected


async def test_a_session_that_stands_still_in_a_transaction_is_ended_by_the_server(
    database: str, conn: asyncpg.Connection
) -> None:
    ours = await connect(database, connect_timeout_s=HANG_S)
    assert await ours.fetchval("SHOW idle_in_transaction_session_timeout") == "10s"
    await ours.execute("SET idle_in_transaction_session_timeout = '100ms'")
    pid = ours.get_server_pid()

    async def ended() -> bool:
        return not await conn.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)

    async def stand_still() -> None:
        async with transaction(ours):
            await eventually(ended, what="the end of the session")
            await ours.fetchval("SELECT 1")

    with pytest.raises(Unavailable), translated():
        await stand_still()


async def test_a_session_whose_program_is_gone_waits_for_no_lock(
    bare: Connection, another: Connect, conn: asyncpg.Connection
) -> None:
    waiter = await another()
    assert await waiter.fetchval("SHOW client_connection_check_interval") == "10s"
    await waiter.execute("SET client_connection_check_interval = '100ms'")
    pid = await waiter.fetchval("SELECT pg_backend_pid()")

    async def blocked() -> bool:
        return bool(await bare.fetchval("SELECT cardinality(pg_blocking_pids($1))", pid))

    async def ended() -> bool:
        return not await bare.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)

    async with conn.transaction():
        await conn.execute("LOCK TABLE jobqueue.jobs")
        waiting = asyncio.create_task(waiter.fetchval("SELECT count(*) FROM jobqueue.jobs"))
        await eventually(blocked, what="a wait for the lock")
        waiter.terminate()
        await eventually(ended, what="the end of the session")
    with pytest.raises(Unavailable), translated():
        await waiting


async def test_a_session_asks_that_a_host_that_is_gone_is_given_up_after_ninety_seconds(
    bare: Connection,
) -> None:
    # What was asked for, not what holds: the tests' connections are Unix sockets, which have none.
    asked = "SELECT reset_val::int FROM pg_settings WHERE name = 'tcp_keepalives_' || $1"
    idle, each, times = [await bare.fetchval(asked, n) for n in ("idle", "interval", "count")]
    assert idle + each * times == 90


async def test_a_connection_names_itself(database: str) -> None:
    connection = await connect(database, application_name="jq-test", connect_timeout_s=HANG_S)
    assert await connection.fetchval("SELECT current_setting('application_name')") == "jq-test"
    await connection.close()


@pytest.fixture
async def lasting(pg: Cluster, database: str) -> str:
    """A database whose sessions keep what they commit, as those behind PgBouncer must."""
    name = database_of(database)
    await pg.admin.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = on')
    return database


async def test_through_pgbouncer_nothing_is_set_and_nothing_is_prepared(lasting: str) -> None:
    pool = await create_pool(lasting, size=1, pgbouncer=True, application_name="unsaid")
    await add_queue(pool)
    for _ in range(3):
        await pool.fetchval("SELECT 1 WHERE $1", True)
    assert await pool.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == 0
    assert await pool.fetchval("SELECT current_setting('application_name')") == ""
    assert await pool.fetchval("SELECT current_setting('plan_cache_mode')") == "auto"
    await pool.close()


async def test_through_pgbouncer_a_pool_resets_nothing_and_ends_what_was_begun(
    lasting: str,
) -> None:
    pool = await create_pool(lasting, size=1, pgbouncer=True)
    async with pool.acquire() as connection:
        await connection.execute("SET lock_timeout = 77")
        await connection.execute("BEGIN")
        await add_queue(connection)
    assert await pool.fetchval("SHOW lock_timeout") == "77ms"
    assert await pool.fetchval("SELECT count(*) FROM jobqueue.queues") == 0
    await pool.close()


async def test_through_pgbouncer_sessions_that_lose_commits_are_refused(
    pg: Cluster, database: str
) -> None:
    name = database_of(database)
    await pg.admin.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    for opening in (connect(database, pgbouncer=True), create_pool(database, pgbouncer=True)):
        with pytest.raises(FailedPrecondition, match="synchronous_commit is off"):
            await opening


async def test_a_database_out_of_reach_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        await connect(NOWHERE)
    with pytest.raises(Unavailable):
        _ = await create_pool(NOWHERE)


async def test_a_database_that_does_not_exist_is_not_called_unreachable(database: str) -> None:
    with pytest.raises(Exception, match="refused"):
        await connect(with_database(database, "missing"))


async def test_a_pool_leaves_a_server_that_was_demoted_as_soon_as_it_refuses_a_write(
    pg: Cluster, database: str, pool: Pool
) -> None:
    # As after a failover: the sessions of then stay read-only for ever, those of now are not.
    change = f'ALTER DATABASE "{database_of(database)}"'
    await pg.admin.execute(f"{change} SET default_transaction_read_only = on")
    await pool.expire_connections()
    async with pool.acquire() as one, pool.acquire() as other:
        stale = {c.get_server_pid() for c in (one, other)}
        await pg.admin.execute(f"{change} RESET default_transaction_read_only")
        for connection in (one, other):
            with pytest.raises(Unavailable), translated():
                await add_queue(connection)
    async with pool.acquire() as fresh:
        await add_queue(fresh)
        assert fresh.get_server_pid() not in stale


async def test_a_lock_is_waited_for_only_as_long_as_said(db: Connection, another: Connect) -> None:
    await add_queue(db)
    holder = await another()
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.queues FOR UPDATE")
        async with db.transaction():
            await limit_lock_waits(db, 0.02)
            with pytest.raises(Aborted) as caught, translated():
                await db.execute("SELECT FROM jobqueue.queues FOR UPDATE")
    assert caught.value.reason == "LOCKED"
    assert await db.fetchval("SHOW lock_timeout") == "0"


async def test_a_statement_cut_by_its_timeout_ran_out_of_time(db: Connection) -> None:
    await db.execute("SET statement_timeout = '20ms'")
    with pytest.raises(DeadlineExceeded), translated():
        await db.execute("SELECT pg_sleep(5)")
    await db.execute("RESET statement_timeout")


async def test_a_cut_connection_is_tried_again_and_then_works(db: Connection, pool: Pool) -> None:
    tries: list[int] = []

    async def ask() -> object:
        async with pool.acquire() as connection:
            tries.append(connection.get_server_pid())
            if len(tries) == 1:
                await db.execute("SELECT pg_terminate_backend($1)", tries[0])
            return await connection.fetchval("SELECT 42")

    assert await retrying(ask) == 42
    assert len(tries) == 2


async def test_who_is_cancelled_as_a_transaction_begins_leaves_nothing_for_the_library_to_end(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    async with pool.acquire() as connection:

        async def work() -> None:
            async with transaction(connection):
                raise AssertionError("it had begun before the cancel")

        working = asyncio.create_task(work())
        await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    assert "active transaction" not in caplog.text
    assert await pool.fetchval("SELECT 42") == 42


async def test_who_is_cancelled_between_the_halves_of_a_statement_leaves_no_lock(
    pg: Cluster, database: str, conn: asyncpg.Connection
) -> None:
    # The library sends what parses a statement, hears the answer, and only then has it executed.
    pool = await create_pool(database, size=1, pgbouncer=pg.pooled, connect_timeout_s=HANG_S)
    pid = await pool.fetchval("SELECT pg_backend_pid()")
    reading = asyncio.create_task(pool.fetchval("SELECT count(*) FROM jobqueue.jobs"))
    await parsed(reading)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await conn.fetchval("SELECT count(*) FROM pg_locks WHERE pid = $1", pid) == 0
    async with pool.acquire() as connection, transaction(connection, snapshot=True):
        assert await connection.fetchval("SELECT pg_backend_pid()") == pid
    await pool.close()


async def parsed(reading: asyncio.Task[object]) -> None:
    """Return as soon as the answer is there that the task waits for, before the task has it."""
    async with asyncio.timeout(HANG_S):
        while (waited := getattr(reading, "_fut_waiter", None)) is None or not waited.done():
            assert not reading.done(), "the answer was overlooked"
            await asyncio.sleep(0)
