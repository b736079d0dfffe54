"""What servers keep in order by the hour, and the figures that they roll."""

import asyncio
import time
from dataclasses import fields

import pytest

from jobqueue.config.model import RULE, DbSettings
from jobqueue.errors import Unavailable
from jobqueue.reaper.upkeep import EventRetention, EventRoom, StatsRoller, event_upkeep, upkeep
from jobqueue.runtime.service import TURN_ENDED, TurnEnded, Unfinished
from jobqueue.store import upkeep as store
from jobqueue.store.pool import SWEEP_TIMEOUT_S, Connection, Pool, create_pool, has_free
from jobqueue.store.upkeep import roll_stats
from tests.store.conftest import Connect
from tests.support.duties import running, twice
from tests.support.partitions import detach_is_pending
from tests.support.store import add_queue, submit
from tests.support.waiting import HANG_S, eventually

HOUR_S = 3_600.0
CUT_WHO_WAITS = """
    SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


async def test_figures_are_rolled_forward(db: Connection, pool: Pool) -> None:
    await add_queue(db)
    await submit(db, 5)
    async with running(twice(lambda p: StatsRoller(p, interval_s=0.05), pool)):
        await eventually(
            lambda: db.fetchval(
                "SELECT coalesce(max(last_eid), 0) >= (SELECT max(eid) FROM jobqueue.job_events) "
                "FROM jobqueue.event_cursors WHERE name = 'stats'"
            )
        )


@pytest.mark.direct
async def test_figures_are_counted_anew_however_long_that_takes(
    database: str, db: Connection, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueue.store.pool.STATEMENT_TIMEOUT_S", 3.0)
    pool = await create_pool(database, size=1, connect_timeout_s=HANG_S)
    await db.execute("UPDATE jobqueue.event_cursors SET system_identifier = 0")
    holder = await another()

    async def takes_long() -> bool:
        return rolling.done() or bool(
            await db.fetchval(
                "SELECT bool_or(waitstart < clock_timestamp() - interval '4 s') FROM pg_locks "
                "WHERE NOT granted AND relation = 'jobqueue.finished'::regclass"
            )
        )

    async with holder.transaction():
        await holder.execute("LOCK TABLE jobqueue.finished")
        rolling = asyncio.create_task(StatsRoller(pool).act())
        await eventually(takes_long, what="a count that takes longer than other statements may")
        assert not rolling.done(), rolling
    await rolling
    await pool.close()
    assert await db.fetchval("SELECT bool_and(system_identifier <> 0) FROM jobqueue.event_cursors")


async def test_the_health_of_the_figures_waits_for_a_count_of_all_rows(pool: Pool) -> None:
    assert StatsRoller(pool).bound_s > SWEEP_TIMEOUT_S


async def test_partitions_are_there_after_the_first_turn(db: Connection, pool: Pool) -> None:
    ended: list[TurnEnded] = []
    stop = TURN_ENDED.subscribe(ended.append)

    async def turned() -> bool:
        return sum(turn.service == "upkeep-partitions" for turn in ended) == 2

    async with running(twice(EventRoom, pool)):
        await eventually(turned, what="a turn of each server")
    stop()
    assert [turn.error for turn in ended if turn.service == "upkeep-partitions"] == [None, None]


async def test_a_step_of_tidying_that_fails_is_told_and_keeps_none_of_the_others(
    bare: Connection, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    for week in ("2010-01-04", "2020-01-06"):
        await bare.execute("SELECT jobqueue.create_event_partition($1::text::date)", week)
    await roll_stats(bare)
    await bare.execute("ALTER TABLE jobqueue.removed_jobs RENAME TO out_of_the_way")
    since_2015_s = time.time() - 45 * 365 * 24 * HOUR_S
    with pytest.raises(Unfinished, match=r"^forget removed jobs$"):
        await EventRetention(pool, retention_s=since_2015_s).act()
    assert await bare.fetchval("SELECT to_regclass('jobqueue.job_events_2010w01')") is None
    assert await bare.fetchval("SELECT to_regclass('jobqueue.job_events_2020w02_log')")
    assert [r.getMessage() for r in caplog.records] == ["a turn failed, trying again"]


async def test_an_outage_while_it_tidies_is_no_failed_step_and_is_tried_again_soon(
    bare: Connection, another: Connect, pool: Pool
) -> None:
    holder = await another()
    async with holder.transaction():
        await holder.execute("LOCK TABLE jobqueue.removed_jobs")
        tidying = asyncio.create_task(EventRetention(pool, retention_s=HOUR_S).act())
        await eventually(lambda: bare.fetchval(CUT_WHO_WAITS), what="a step that waits")
        with pytest.raises(Unavailable):
            await tidying


async def test_a_step_that_takes_too_long_is_told_and_keeps_none_of_the_others(
    bare: Connection, another: Connect, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SWEEP_TIMEOUT_S", 0.5)
    await bare.execute(
        "INSERT INTO jobqueue.queue_minutes VALUES (1, now() - interval '30 days', 1, 0, 0)"
    )
    holder = await another()
    async with holder.transaction():
        await holder.execute("LOCK TABLE jobqueue.removed_jobs")
        with pytest.raises(Unfinished, match=r"^forget removed jobs$"):
            await EventRetention(pool, retention_s=HOUR_S).act()
    assert await bare.fetchval("SELECT count(*) FROM jobqueue.queue_minutes") == 0


async def test_old_events_make_room_though_no_partition_can_be_sealed(
    bare: Connection, pool: Pool
) -> None:
    await bare.execute("SELECT jobqueue.create_event_partition('2020-01-06')")
    await roll_stats(bare)
    await bare.execute("DROP FUNCTION jobqueue.seal_event_partition")
    with pytest.raises(Unfinished, match=r"^seal partitions$"):
        await EventRetention(pool, retention_s=HOUR_S).act()
    assert await bare.fetchval("SELECT to_regclass('jobqueue.job_events_2020w02')") is None


@pytest.mark.direct
async def test_the_least_pool_has_a_connection_left_while_a_partition_waits_to_be_detached(
    database: str, db: Connection, another: Connect
) -> None:
    (least,) = (f.metadata[RULE].low for f in fields(DbSettings) if f.name == "pool_size")
    pool = await create_pool(database, size=least, connect_timeout_s=HANG_S)
    await db.execute("SELECT jobqueue.create_event_partition('2020-01-06')")
    reader = await another()

    async with reader.transaction():
        await reader.execute("SELECT FROM jobqueue.job_events")
        tidying = asyncio.create_task(EventRetention(pool, retention_s=HOUR_S).act())
        await eventually(
            lambda: detach_is_pending(db), what="a partition that waits for the reader"
        )
        assert has_free(pool)
    await tidying
    await pool.close()


async def test_all_upkeep_is_built_under_names_of_its_own(pool: Pool) -> None:
    services = [
        *upkeep(pool, heartbeat_timeout_s=30.0, done_retention_s=HOUR_S),
        *event_upkeep(pool, event_retention_s=HOUR_S),
        EventRoom(pool),
    ]
    assert len({service.name for service in services}) == len(services) == 6
