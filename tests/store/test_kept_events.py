"""What is kept of events and jobs that are gone, until nobody needs it."""

import asyncio
from uuid import UUID

import asyncpg
import pytest

from jobqueue.domain.outcome import Refused
from jobqueue.store.events import add_cursor, move_cursor, open_window, take_cursor
from jobqueue.store.jobs import delete_job
from jobqueue.store.pool import Connection
from jobqueue.store.statements import statement
from jobqueue.store.upkeep import (
    drop_partitions,
    forget_kept_events,
    forget_removed_jobs,
    roll_stats,
)
from tests.store.conftest import Connect
from tests.support.partitions import YEAR_S, age_everything, keep_an_event_of_no_job
from tests.support.store import add_queue, claim_one, path, restore_dump, settle, submit
from tests.support.waiting import eventually


async def outliving(db: Connection, count: int) -> list[UUID]:
    """Return so many dead jobs, five events each, whose partition has been dropped."""
    await add_queue(db)
    ids = await submit(db, count)
    for job in [await claim_one(db) for _ in ids]:
        await settle(db, job, Refused("never"))
    await age_everything(db)
    await drop_partitions(db, YEAR_S)
    return ids


async def kept(db: Connection) -> int:
    return int(await db.fetchval("SELECT count(*) FROM jobqueue.job_events_kept"))


async def test_kept_events_go_with_their_job_once_every_consumer_has_passed(
    db: Connection,
) -> None:
    ids = await outliving(db, 3)
    assert await kept(db) == 15
    await delete_job(db, ids[0])
    await delete_job(db, ids[2])
    since = await db.fetchval("SELECT since FROM jobqueue.event_cursors")
    await db.execute("UPDATE jobqueue.event_cursors SET since = '2020-01-01'")
    assert await forget_kept_events(db) == 0
    await db.execute("UPDATE jobqueue.event_cursors SET since = $1", since)
    assert await forget_kept_events(db, page_jobs=1) == 10
    assert await kept(db) == 5
    assert len(await path(db, ids[1])) == 5
    assert await forget_kept_events(db) == 0


async def test_what_events_need_of_a_removed_job_stays_until_every_consumer_has_passed_them(
    db: Connection,
) -> None:
    await add_queue(db)
    old, young = await submit(db, 2)
    for job in [await claim_one(db) for _ in range(2)]:
        await settle(db, job)
    await delete_job(db, old)
    await db.execute("UPDATE jobqueue.removed_jobs SET removed_at = removed_at - interval '1 h'")
    await delete_job(db, young)
    assert await forget_removed_jobs(db) == 0
    await roll_stats(db)
    assert await forget_removed_jobs(db) == 1
    assert await db.fetchval("SELECT job_id FROM jobqueue.removed_jobs") == young


async def test_removed_jobs_of_a_restored_dump_are_forgotten_once_what_repeats_is_passed(
    bare: Connection,
) -> None:
    await add_queue(bare)
    await add_cursor(bare, "kafka")
    (removed,) = await submit(bare)
    await settle(bare, await claim_one(bare))
    await delete_job(bare, removed)
    await bare.execute("UPDATE jobqueue.removed_jobs SET removed_at = removed_at - interval '1 h'")
    await restore_dump(bare)
    await roll_stats(bare)
    assert await forget_removed_jobs(bare) == 0
    lease = await take_cursor(bare, "kafka", "a server", 60.0)
    assert lease is not None
    assert await forget_removed_jobs(bare) == 0
    window = await open_window(bare, lease)
    assert window is not None
    assert await move_cursor(bare, lease, window.last)
    assert await forget_removed_jobs(bare) == 1


async def test_removed_jobs_are_forgotten_page_by_page_and_those_that_went_stay_away(
    db: Connection, another: Connect
) -> None:
    await db.execute(
        "INSERT INTO jobqueue.removed_jobs (id, job_id, removed_at) "
        "SELECT n, gen_random_uuid(), now() - interval '1 h' FROM generate_series(1, 5) n"
    )
    await roll_stats(db)
    holder, upkeep = await another(), await another()
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.removed_jobs WHERE id = 5 FOR UPDATE")
        forgetting = asyncio.create_task(forget_removed_jobs(upkeep, page_jobs=2))
        await eventually(
            lambda: db.fetchval("SELECT array_agg(id) = '{5}' FROM jobqueue.removed_jobs"),
            what="the full pages gone while the last one waits",
        )
    assert await forgetting == 5


async def test_what_upkeep_forgets_is_answered_as_a_number(db: Connection) -> None:
    await db.execute(
        "INSERT INTO jobqueue.queue_minutes SELECT 1, now() - interval '1 h' * n, 1, 0, 0 "
        "FROM generate_series(1, 3) n"
    )
    await db.execute(
        "INSERT INTO jobqueue.worker_names (name, seen_at) "
        "SELECT n::text, '2020-01-01' FROM generate_series(1, 3) n"
    )
    answers = [
        *await db.fetch(statement("prune_minutes"), 60.0),
        *await db.fetch(statement("prune_worker_names")),
    ]
    assert [list(row) for row in answers] == [[3], [3]]


async def test_every_table_that_loses_rows_can_be_published(db: Connection) -> None:
    """Without a replica identity a publication of all tables has UPDATE and DELETE refused.

    Partitions lose none; they are dropped whole.
    """
    rows = await db.fetch(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'jobqueue'::regnamespace "
        "AND c.relkind = 'r' AND NOT c.relispartition AND NOT EXISTS (SELECT FROM pg_index i "
        "WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary "
        "WHEN 'i' THEN i.indisreplident END)"
    )
    assert [row["relname"] for row in rows] == []


async def test_kept_events_are_forgotten_while_all_tables_are_published(db: Connection) -> None:
    await keep_an_event_of_no_job(db)
    await db.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    assert await forget_kept_events(db) == 1


async def test_kept_events_are_guarded_again_after_some_were_forgotten(db: Connection) -> None:
    ids = await outliving(db, 2)
    await delete_job(db, ids[0])
    assert await forget_kept_events(db) == 5
    await db.execute("SET session_replication_role = replica")
    with pytest.raises(asyncpg.RestrictViolationError):
        await db.execute("DELETE FROM jobqueue.job_events_kept")
    await db.execute("RESET session_replication_role")
