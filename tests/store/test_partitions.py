"""Partitions of events: made ahead, sealed, dropped, and never in anybody's way."""

import asyncio
from collections.abc import Callable, Coroutine

import asyncpg
import pytest

from jobqueue.domain.outcome import Refused
from jobqueue.store.jobs import get_job, list_job_events
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import (
    drop_partitions,
    ensure_partitions,
    forget_kept_events,
    prune_jobs,
    roll_stats,
    seal_partitions,
)
from tests.store.conftest import Connect
from tests.support.partitions import (
    AN_OLD_WEEK,
    OLD,
    YEAR_S,
    age_everything,
    detach_is_pending,
    keep_an_event_of_no_job,
)
from tests.support.store import FAILURE, add_queue, claim_one, path, settle, submit
from tests.support.waiting import eventually


async def partitions(db: Connection) -> list[str]:
    rows = await db.fetch(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'jobqueue.job_events'::regclass ORDER BY 1"
    )
    return [row["relname"] for row in rows]


async def exists(db: Connection, table: str) -> bool:
    return await db.fetchval("SELECT to_regclass('jobqueue.' || $1)", table) is not None


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
