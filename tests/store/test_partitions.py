"""Partitions of events: made ahead, sealed, dropped, and never in anybody's way."""

import asyncio
from collections.abc import Callable, Coroutine

import asyncpg
import pytest

from jobqueue.domain.outcome import Refused
from jobqueue.store.events import add_cursor, move_cursor, open_window, take_cursor
from jobqueue.store.jobs import delete_job, get_job, list_job_events
from jobqueue.store.pool import Connection
from jobqueue.store.statements import statement
from jobqueue.store.upkeep import (
    drop_partitions,
    ensure_partitions,
    forget_kept_events,
    forget_removed_jobs,
    prune_jobs,
    roll_stats,
    seal_partitions,
)
from tests.store.conftest import Connect
from tests.support.store import FAILURE, add_queue, claim_one, path, restore_dump, settle, submit
from tests.support.waiting import eventually

YEAR_S = 365 * 86_400.0
AN_OLD_WEEK = "2020-01-06"
OLD = "job_events_2020w02"
AN_EVENT = """
    INSERT INTO jobqueue.job_events (job, at, queue_id, seq, to_status, reason, attempt)
    VALUES (1, $1::text::timestamptz, 1, 1, 'PENDING', 'SUBMITTED', 0)
"""


async def partitions(db: Connection) -> list[str]:
    rows = await db.fetch(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'jobqueue.job_events'::regclass ORDER BY 1"
    )
    return [row["relname"] for row in rows]


async def exists(db: Connection, table: str) -> bool:
    return await db.fetchval("SELECT to_regclass('jobqueue.' || $1)", table) is not None


async def age_everything(db: Connection) -> None:
    """Count all events so far, then move them and their jobs into a week of 2020.

    The next week and this one have had events too.
    """
    await roll_stats(db)
    await db.execute("SELECT jobqueue.create_event_partition($1::text::date)", "2020-01-13")
    for at in ("2020-01-14", "now"):
        undone = db.transaction()
        await undone.start()
        await db.execute(AN_EVENT, at)
        await undone.rollback()
    await db.execute("SELECT jobqueue.create_event_partition($1::text::date)", AN_OLD_WEEK)
    await db.execute("ALTER TABLE jobqueue.job_events DISABLE TRIGGER job_events_immutable")
    await db.execute("UPDATE jobqueue.job_events SET at = timestamptz '2020-01-07' + (at - now())")
    await db.execute("ALTER TABLE jobqueue.job_events ENABLE ALWAYS TRIGGER job_events_immutable")
    await db.execute("UPDATE jobqueue.jobs SET created_at = '2020-01-07'")


async def test_partitions_are_made_ahead_once(db: Connection) -> None:
    before = await partitions(db)
    made = await ensure_partitions(db, 6)
    assert len(await partitions(db)) == len(before) + made
    assert made in {3, 2}  # the template may be a week old
    assert await ensure_partitions(db, 6) == 0


async def test_names_of_other_tables_are_not_taken_for_weeks_whatever_the_plan(
    db: Connection,
) -> None:
    await age_everything(db)
    async with db.transaction():
        for kind in ("indexscan", "bitmapscan", "nestloop", "mergejoin"):
            await db.execute(f"SET LOCAL enable_{kind} = off")
        assert await seal_partitions(db) >= 1


async def test_servers_that_make_partitions_at_once_do_not_fail(
    db: Connection, another: Connect
) -> None:
    connections = [await another() for _ in range(6)]
    made = await asyncio.gather(*[ensure_partitions(c, 8) for c in connections])
    assert sorted(made)[:-1] == [0] * 5
    assert await ensure_partitions(db, 8) == 0


async def test_making_partitions_stops_no_writer_behind_an_open_transaction(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    slow, upkeep, writer = await another(), await another(), await another()
    async with slow.transaction():
        await submit(slow)
        assert await ensure_partitions(upkeep, 6) > 0
        await submit(writer)


async def test_only_weeks_that_are_over_are_sealed_and_each_once(db: Connection) -> None:
    await db.execute("SELECT jobqueue.create_event_partition($1::text::date)", AN_OLD_WEEK)
    sealed = await seal_partitions(db)
    assert sealed >= 1
    assert await exists(db, f"{OLD}_log")
    current = await db.fetchval(
        "SELECT 'job_events_' || to_char(now() AT TIME ZONE 'UTC', 'IYYY\"w\"IW')"
    )
    assert not await exists(db, f"{current}_log")
    assert await seal_partitions(db) == 0


@pytest.mark.parametrize(
    ("table", "work"),
    [(OLD, seal_partitions), ("job_events_kept", forget_kept_events)],
    ids=["sealing", "forgetting"],
)
async def test_upkeep_outwaits_what_gives_way_only_after_a_deadlock_timeout(
    db: Connection,
    another: Connect,
    table: str,
    work: Callable[[Connection], Coroutine[None, None, int]],
) -> None:
    """As an autovacuum does, which holds this lock."""
    await db.execute("SELECT jobqueue.create_event_partition($1::text::date)", AN_OLD_WEEK)
    await keep_an_event_of_no_job(db)
    vacuum, upkeep = await another(), await another()
    async with vacuum.transaction():
        await vacuum.execute(f"LOCK TABLE jobqueue.{table} IN SHARE UPDATE EXCLUSIVE MODE")
        working = asyncio.create_task(work(upkeep))

        async def outwaited() -> bool:
            return working.done() or bool(
                await db.fetchval(
                    "SELECT bool_or(waitstart < clock_timestamp()"
                    " - current_setting('deadlock_timeout')::interval) FROM pg_locks "
                    "WHERE NOT granted AND relation = to_regclass('jobqueue.' || $1)",
                    table,
                )
            )

        await eventually(outwaited, what="a wait that outlasts deadlock_timeout")
    assert await working >= 1


async def keep_an_event_of_no_job(db: Connection) -> None:
    await roll_stats(db)
    await db.execute(
        "INSERT INTO jobqueue.job_events_kept (eid, xid, job, at, queue_id, seq, to_status,"
        " reason, attempt) VALUES (0, '3', 1, '2020-01-07', 1, 1, 'PENDING', 'SUBMITTED', 0)"
    )


async def test_partitions_are_sealed_one_by_one(db: Connection, another: Connect) -> None:
    await db.execute("SELECT jobqueue.create_event_partition('2020-01-06')")
    await db.execute("SELECT jobqueue.create_event_partition('2020-01-13')")
    holder, upkeep = await another(), await another()
    async with holder.transaction():
        await holder.execute("LOCK TABLE jobqueue.job_events_2020w03 IN ROW EXCLUSIVE MODE")
        sealing = asyncio.create_task(seal_partitions(upkeep))
        await eventually(lambda: exists(db, f"{OLD}_log"), what="the first one's index")
        assert not sealing.done()
    await sealing
    assert await exists(db, "job_events_2020w03_log")


async def test_dropping_a_partition_keeps_the_events_of_jobs_that_exist(db: Connection) -> None:
    await add_queue(db)
    (dead,) = await submit(db)
    await settle(db, await claim_one(db), Refused("never"))
    (done,) = await submit(db)
    await settle(db, await claim_one(db))
    whole = await path(db, dead)
    await age_everything(db)
    await prune_jobs(db, after=0, retention_s=0.0, limit=10)
    assert await get_job(db, done) is None
    assert await drop_partitions(db, YEAR_S) == [OLD]
    assert not await exists(db, OLD)
    assert await path(db, dead) == whole
    assert [event.sequence for event in await list_job_events(db, dead)] == [1, 2, 3, 4, 5]
    assert await db.fetchval("SELECT count(*) FROM jobqueue.job_event_log") == 5
    assert await drop_partitions(db, YEAR_S) == []


async def test_a_job_that_waits_for_longer_than_its_events_are_kept_shows_why_it_failed(
    db: Connection,
) -> None:
    await add_queue(db)
    (failed,) = await submit(db)
    await settle(db, await claim_one(db), FAILURE)
    await age_everything(db)
    assert await drop_partitions(db, YEAR_S) == [OLD]
    job = await get_job(db, failed)
    assert job is not None
    assert (job.status, job.last_error) == ("FAILED", "boom")


async def test_a_partition_that_a_consumer_has_not_passed_stays(db: Connection) -> None:
    await age_everything(db)
    await db.execute("UPDATE jobqueue.event_cursors SET since = '2020-01-08'")
    assert await drop_partitions(db, YEAR_S) == []
    await db.execute("UPDATE jobqueue.event_cursors SET since = '2020-01-14'")
    assert await drop_partitions(db, YEAR_S) == [OLD]


async def test_a_partition_younger_than_the_retention_stays(db: Connection) -> None:
    await roll_stats(db)
    assert await drop_partitions(db, YEAR_S) == []
    assert len(await partitions(db)) >= 4


async def test_the_newest_events_stay_when_the_clock_of_the_database_jumps_ahead(
    db: Connection,
) -> None:
    await add_queue(db)
    await submit(db)
    await roll_stats(db)
    await db.execute("UPDATE jobqueue.event_cursors SET since = '2200-01-01'")
    await drop_partitions(db, -100 * YEAR_S)
    assert await db.fetchval("SELECT count(*) FROM jobqueue.job_events") == 1


async def test_detaching_waits_for_an_open_transaction_and_stops_no_writer(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await age_everything(db)
    slow, upkeep, writer = await another(), await another(), await another()
    held = slow.transaction()
    await held.start()
    await slow.fetch("SELECT FROM jobqueue.job_events")
    dropping = asyncio.create_task(drop_partitions(upkeep, YEAR_S))
    await eventually(lambda: detach_is_pending(db))
    await submit(writer)
    await held.commit()
    assert await dropping == [OLD]


async def detach_is_pending(db: Connection) -> bool:
    return bool(await db.fetchval("SELECT bool_or(inhdetachpending) FROM pg_inherits"))


@pytest.mark.direct
async def test_a_run_cut_off_while_detaching_is_finished_by_the_next(
    db: Connection, another: Connect
) -> None:
    await age_everything(db)
    slow, upkeep = await another(), await another()
    async with slow.transaction():
        await slow.fetch("SELECT FROM jobqueue.job_events")
        await upkeep.execute("SET lock_timeout = '300ms'")
        with pytest.raises(asyncpg.PostgresError):
            await drop_partitions(upkeep, YEAR_S)
        assert await detach_is_pending(db)
    assert await drop_partitions(db, YEAR_S) == [OLD]


async def test_a_run_cut_off_after_detaching_is_finished_by_the_next(db: Connection) -> None:
    await add_queue(db)
    (dead,) = await submit(db)
    await settle(db, await claim_one(db), Refused("never"))
    whole = await path(db, dead)
    await age_everything(db)
    await db.execute(f"ALTER TABLE jobqueue.job_events DETACH PARTITION jobqueue.{OLD}")
    assert await drop_partitions(db, YEAR_S) == [OLD]
    assert await path(db, dead) == whole


async def kept(db: Connection) -> int:
    return int(await db.fetchval("SELECT count(*) FROM jobqueue.job_events_kept"))


async def test_no_event_is_missing_or_told_twice_while_its_partition_is_dropped(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    (dead,) = await submit(db)
    await settle(db, await claim_one(db), Refused("never"))
    whole = await path(db, dead)
    await age_everything(db)
    slow, upkeep = await another(), await another()
    held = slow.transaction()
    await held.start()
    await slow.fetch("SELECT FROM jobqueue.job_events")
    dropping = asyncio.create_task(drop_partitions(upkeep, YEAR_S))
    await eventually(lambda: detach_is_pending(db))
    assert await path(db, dead) == await path(slow, dead) == whole
    assert len(await list_job_events(db, dead)) == len(whole)
    await held.commit()
    assert await dropping == [OLD]
    assert await path(db, dead) == whole


async def test_kept_events_go_with_their_job_once_every_consumer_has_passed(
    db: Connection,
) -> None:
    await add_queue(db)
    ids = await submit(db, 3)
    for job in [await claim_one(db) for _ in ids]:
        await settle(db, job, Refused("never"))
    await age_everything(db)
    await drop_partitions(db, YEAR_S)
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
    await add_queue(db)
    ids = await submit(db, 2)
    for job in [await claim_one(db) for _ in ids]:
        await settle(db, job, Refused("never"))
    await age_everything(db)
    await drop_partitions(db, YEAR_S)
    await delete_job(db, ids[0])
    assert await forget_kept_events(db) == 5
    await db.execute("SET session_replication_role = replica")
    with pytest.raises(asyncpg.RestrictViolationError):
        await db.execute("DELETE FROM jobqueue.job_events_kept")
    await db.execute("RESET session_replication_role")
