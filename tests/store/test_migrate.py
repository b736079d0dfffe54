"""Migrations: up, down, up again, many at once, and newer than we know (R-10.3)."""

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.errors import FailedPrecondition, Internal, Unavailable
from jobqueue.store import migrate as module
from jobqueue.store.migrate import head, migrate, schema_revision
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.postgres import Cluster, database_of, with_database
from tests.support.store import add_queue, claim_one, settle, submit
from tests.support.waiting import eventually

_SCHEMA = """
    SELECT 'column', table_name || '.' || column_name, data_type || coalesce(column_default, '')
    FROM information_schema.columns WHERE table_schema = 'jobqueue'
    UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'jobqueue'
    UNION ALL SELECT 'function', p.proname, pg_get_functiondef(p.oid) FROM pg_proc p
    WHERE p.pronamespace = 'jobqueue'::regnamespace
    UNION ALL SELECT 'type', t.typname, t.typtype::text FROM pg_type t
    WHERE t.typnamespace = 'jobqueue'::regnamespace
    UNION ALL SELECT 'trigger', t.tgrelid::regclass::text || t.tgname, t.tgenabled::text
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'jobqueue'::regnamespace AND NOT t.tgisinternal ORDER BY 1, 2, 3
"""

LESSER = "jq_lesser"
MIGRATES = """
import asyncio, sys
from jobqueue.store.migrate import migrate
asyncio.run(migrate(sys.argv[1]))
"""
HALF_WAY = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'
"""


@pytest_asyncio.fixture
async def empty(pg: Cluster) -> AsyncIterator[str]:
    """The DSN of a database that was never migrated."""
    name = "never_migrated"
    await pg.admin.execute(f'DROP DATABASE IF EXISTS "{name}"')
    await pg.admin.execute(f'CREATE DATABASE "{name}"')
    dsn = with_database(pg.dsn, name)
    yield dsn
    await pg.drop_database(dsn)


@pytest_asyncio.fixture
async def lesser(pg: Cluster, empty: str) -> AsyncIterator[str]:
    """The DSN of the same database for a role that may do nothing in it but connect."""
    await pg.admin.execute(f"CREATE ROLE {LESSER} LOGIN PASSWORD '{LESSER}'")
    parts = urlsplit(empty)
    hosts = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{LESSER}:{LESSER}@{hosts}"))
    await pg.drop_database(empty)
    await pg.admin.execute(f"DROP ROLE {LESSER}")


async def revision(dsn: str) -> str | None:
    connection = await asyncpg.connect(dsn, statement_cache_size=0)
    try:
        return await schema_revision(connection)
    finally:
        await connection.close()


async def execute(dsn: str, script: str) -> None:
    connection = await asyncpg.connect(dsn, statement_cache_size=0)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def migrating(dsn: str) -> Process:
    """Start a program that migrates and ends."""
    return await asyncio.create_subprocess_exec(sys.executable, "-c", MIGRATES, dsn)


async def test_a_database_that_was_never_migrated_has_no_revision(empty: str) -> None:
    assert await revision(empty) is None


async def test_a_migrated_database_is_at_the_newest_revision(db: Connection) -> None:
    assert await schema_revision(db) == head()


async def test_down_and_up_again_gives_the_same_schema(database: str, bare: Connection) -> None:
    await add_queue(bare)
    await submit(bare, 2)
    await settle(bare, await claim_one(bare))
    before = await bare.fetch(_SCHEMA)
    await migrate(database, "base")
    assert await revision(database) is None
    left = await bare.fetch(_SCHEMA)
    assert {row[1].split(".")[0] for row in left} <= {
        "_alembic_version",
        "alembic_version",
        "alembic_version_pkc",
    }
    await migrate(database)
    assert await bare.fetch(_SCHEMA) == before


async def test_a_partition_that_was_left_detached_goes_with_the_rest(
    database: str, bare: Connection
) -> None:
    await bare.execute("SELECT jobqueue.create_event_partition('2020-01-06')")
    await bare.execute(
        "ALTER TABLE jobqueue.job_events DETACH PARTITION jobqueue.job_events_2020w02"
    )
    await migrate(database, "base")
    assert await bare.fetchval("SELECT to_regclass('jobqueue.job_events_2020w02')") is None


async def test_servers_that_migrate_at_once_do_it_once(empty: str) -> None:
    servers = [await migrating(empty) for _ in range(6)]
    assert [await server.wait() for server in servers] == [0] * 6
    assert await revision(empty) == head()


@pytest.mark.direct
async def test_a_migration_that_is_killed_half_way_may_be_repeated(
    pg: Cluster, empty: str, bare: Connection
) -> None:
    await execute(empty, "CREATE SCHEMA jobqueue")
    blocker = await asyncpg.connect(empty)
    # The migration waits for what becomes of this table when others that it made are there already.
    await blocker.execute("BEGIN; CREATE TABLE jobqueue.event_cursors ()")
    server = await migrating(empty)
    name = database_of(empty)
    await eventually(lambda: pg.admin.fetchval(HALF_WAY, name), what="a migration half-way")
    server.kill()
    assert await server.wait() == -signal.SIGKILL
    await blocker.execute("ROLLBACK")
    assert await schema_revision(blocker) is None
    await migrate(empty)
    assert await schema_revision(blocker) == head()
    assert await blocker.fetch(_SCHEMA) == await bare.fetch(_SCHEMA)
    await blocker.close()


async def test_one_process_may_migrate_twice_at_once(empty: str) -> None:
    await asyncio.gather(migrate(empty), migrate(empty))
    assert await revision(empty) == head()


async def test_a_revision_newer_than_known_is_left_alone(database: str, bare: Connection) -> None:
    await bare.execute("UPDATE jobqueue.alembic_version SET version_num = '9999'")
    await migrate(database)
    assert await schema_revision(bare) == "9999"


@pytest.mark.direct
async def test_a_migration_waits_for_a_table_that_a_transaction_holds(
    database: str, bare: Connection, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TRIES", 1)
    holder = await another()
    async with holder.transaction():
        await holder.execute("LOCK TABLE jobqueue.jobs IN ACCESS SHARE MODE")
        with pytest.raises(Unavailable, match="holds a table"):
            await migrate(database, "base")
    assert await schema_revision(bare) == head()
    await migrate(database, "base")
    assert await schema_revision(bare) is None


async def test_a_database_out_of_reach_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        await migrate("postgresql://nobody@127.0.0.1:1/none")


async def test_an_unexpected_error_of_a_migration_is_not_hidden(empty: str) -> None:
    await execute(empty, "CREATE SCHEMA jobqueue; CREATE TABLE jobqueue.queues ()")
    with pytest.raises(Internal, match="already exists"):
        await migrate(empty)


@pytest.mark.direct
async def test_a_role_that_owns_only_the_schema_migrates_and_keeps_it(
    empty: str, lesser: str
) -> None:
    await execute(empty, f"CREATE SCHEMA jobqueue AUTHORIZATION {LESSER}")
    await migrate(lesser)
    await execute(lesser, "SELECT jobqueue.create_event_partition('2020-01-06')")
    await migrate(lesser, "base")
    assert await revision(lesser) is None


@pytest.mark.direct
async def test_a_migration_without_rights_is_refused_in_the_words_of_the_driver(
    lesser: str,
) -> None:
    with pytest.raises(Internal, match="refused the migration: permission denied for database"):
        await migrate(lesser)


async def test_no_schema_is_moved_whose_revision_is_newer_than_known(
    database: str, bare: Connection
) -> None:
    await bare.execute("UPDATE jobqueue.alembic_version SET version_num = '9999'")
    with pytest.raises(FailedPrecondition, match="'9999'"):
        await migrate(database, "base")
    assert await schema_revision(bare) == "9999"
