"""What becomes of events when Kafka, a relay or a message fails: they wait, move on, are parked."""

import asyncio
import math
from datetime import datetime

import psutil
import pytest

from jobqueue.domain.outcome import Failed
from jobqueue.events import pages
from jobqueue.events.publisher import MAX_IN_FLIGHT
from jobqueue.events.relay import CURSOR
from jobqueue.events.signals import (
    EVENT_FIGURES,
    EVENTS_PARKED,
    KAFKA_PUBLISH_FAILED,
    RELAY_CHANGED,
    Parked,
    PublishFailed,
    RelayChanged,
    RelayState,
)
from jobqueue.store.events import (
    Backlog,
    add_cursor,
    count_backlog,
    extend_cursor,
    list_parked,
    move_cursor,
    open_window,
    resend_parked,
    take_cursor,
)
from jobqueue.store.pool import Connection, Pool
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.relays import SHORT_S, all_arrive, relay, relaying, run_jobs
from tests.support.store import add_queue, claim, settle, submit
from tests.support.waiting import HANG_S, eventually

TERMINATE_WAITING = """
    SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
EXTENDED_IN_A_WAIT = """
    SELECT a.query_start FROM jobqueue.event_cursors c, pg_stat_activity a
    WHERE c.name = 'kafka' AND a.datname = current_database() AND a.wait_event_type = 'Lock'
      AND c.expires_at - make_interval(secs => $1) > a.query_start + interval '2 s'
"""
EXPIRE = "UPDATE jobqueue.event_cursors SET expires_at = now() WHERE name = 'kafka'"


async def test_a_relay_starts_though_the_session_of_its_cursor_is_cut(
    conn: Connection, pool: Pool, way: Way, topic: str
) -> None:
    async def cut() -> int:
        return int(await conn.fetchval(TERMINATE_WAITING))

    starting = relay(pool, way.settings(topic))
    async with conn.transaction():
        await conn.execute("LOCK TABLE jobqueue.event_cursors IN ACCESS EXCLUSIVE MODE")
        started = asyncio.create_task(starting.start())
        assert await eventually(cut, what="a session that waits") == 1
    await started
    await starting.stop()


async def test_kafka_away_for_a_while_costs_no_memory_and_no_event(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    failed: list[PublishFailed] = []
    changes: list[RelayChanged] = []
    ends = [KAFKA_PUBLISH_FAILED.subscribe(failed.append), RELAY_CHANGED.subscribe(changes.append)]
    process = psutil.Process()
    async with relaying(pool, way, topic, **{"message.timeout.ms": 1_500}) as running:
        await add_queue(pool)
        await run_jobs(pool, 200)
        way.cut()
        before = process.memory_info().rss
        for _ in range(5):
            await run_jobs(pool, 400)
        await eventually(lambda: _done(failed), within_s=60, what="a failed delivery")
        assert way.refused > 0, "the way was cut"
        assert (await count_backlog(pool, CURSOR)).events > 1_000
        grown = (process.memory_info().rss - before) / 2**20
        print(f"RSS grew by {grown:.1f} MiB during the outage")  # noqa: T201
        assert running.state is RelayState.FAILING
        assert running._publisher.most_in_flight <= MAX_IN_FLIGHT
        words = [change.state for change in changes]
        assert words.count(RelayState.FAILING) == 1, "one change, however many attempts"
        way.open()
        await all_arrive(pool, listener)
    for end in ends:
        end()


async def _done(found: list[PublishFailed]) -> bool:
    return bool(found)


async def test_kafka_away_at_the_start_only_delays(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    way.cut()
    async with relaying(pool, way, topic, **{"message.timeout.ms": 1_000}) as running:
        await add_queue(pool)
        await run_jobs(pool, 5)

        async def failing() -> bool:
            return running.state is RelayState.FAILING

        await eventually(failing, within_s=30)
        way.open()
        await all_arrive(pool, listener)


async def test_a_relay_that_dies_in_the_middle_of_a_batch_is_replaced(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    first = relay(pool, way.settings(topic), SHORT_S, **{"linger.ms": 500})
    await first.start()
    await add_queue(pool)
    await run_jobs(pool, 300)

    async def under_way() -> bool:
        return first._publisher.most_in_flight > 0

    await eventually(under_way)
    task = first._task
    assert task is not None
    first._lease = None  # a killed process gives nothing back
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await count_backlog(pool, CURSOR)).events > 0, "it died before it was done"
    async with relaying(pool, way, topic):
        await all_arrive(pool, listener)
    await first.stop()


async def test_of_two_relays_one_publishes_and_each_takes_over_from_the_other(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    async with (
        relaying(pool, way, topic, SHORT_S) as one,
        relaying(pool, way, topic, SHORT_S) as two,
    ):
        await add_queue(pool)
        for _ in range(4):
            await run_jobs(pool, 50)
            await pool.execute(EXPIRE)
        await all_arrive(pool, listener)

        async def one_holds() -> bool:
            states = {one.state, two.state}
            return states == {RelayState.HOLDING, RelayState.STANDBY}

        await eventually(one_holds, within_s=30)
        await (one if one.state is RelayState.HOLDING else two).stop()
        await run_jobs(pool, 10)
        await all_arrive(pool, listener)


@pytest.mark.parametrize("table", ["job_events", "removed_jobs"], ids=["opening", "reading"])
async def test_a_relay_holds_the_cursor_however_long_the_database_takes_for_its_next_events(
    pool: Pool,
    way: Way,
    topic: str,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
) -> None:
    monkeypatch.setattr(pages, "STATEMENT_TIMEOUT_S", 1.0)
    # Never: its look at the backlog would wait for the table too.
    monkeypatch.setattr("jobqueue.events.relay._FIGURES_S", math.nan)
    await add_queue(pool)
    await add_cursor(pool, CURSOR)
    assert await take_cursor(pool, CURSOR, "nobody", HANG_S)
    await run_jobs(pool, 5)
    async with relaying(pool, way, topic, SHORT_S) as running:
        waits: dict[datetime, float] = {}

        async def holds() -> bool:
            since = await pool.fetchval(EXTENDED_IN_A_WAIT, SHORT_S)
            progress = running.last_progress
            return since is not None and waits.setdefault(since, progress) < progress

        async with pool.acquire() as locking, locking.transaction():
            await locking.execute(f"LOCK TABLE jobqueue.{table} IN ACCESS EXCLUSIVE MODE")
            await pool.execute(EXPIRE)
            await eventually(holds, what="a wait through which the cursor is held")
        await all_arrive(pool, listener)


async def test_a_lost_lease_moves_nothing(pool: Pool, way: Way, topic: str) -> None:
    await relay(pool, way.settings(topic)).setup()
    old = await take_cursor(pool, CURSOR, "old", 60.0)
    assert old is not None
    assert await take_cursor(pool, CURSOR, "new", 60.0) is None
    await pool.execute(EXPIRE)
    new = await take_cursor(pool, CURSOR, "new", 60.0)
    assert new is not None
    await add_queue(pool)
    await run_jobs(pool, 5)
    window = await open_window(pool, new)
    assert window is not None
    before = await pool.fetch("SELECT * FROM jobqueue.event_cursors WHERE name = 'kafka'")
    assert not await extend_cursor(pool, old, 60.0)
    assert await open_window(pool, old) is None
    assert not await move_cursor(pool, old, window.last)
    assert before == await pool.fetch("SELECT * FROM jobqueue.event_cursors WHERE name = 'kafka'")
    assert await move_cursor(pool, new, window.last)
    await pool.execute(EXPIRE)
    assert not await extend_cursor(pool, new, 60.0), "another may hold it by now"


@pytest.mark.parametrize(
    "strange",
    [
        "system_identifier = 1, snapshot = pg_current_snapshot()",
        "snapshot = '4000000000:4000000000:'",
    ],
    ids=["of-another-cluster", "of-this-cluster-before-it-was-set-back"],
)
async def test_a_cursor_whose_transaction_ids_mean_nothing_begins_anew_by_event_id(
    pool: Pool, way: Way, topic: str, listener: Listener, strange: str
) -> None:
    async with relaying(pool, way, topic):
        await add_queue(pool)
        await run_jobs(pool, 5)
        await all_arrive(pool, listener)
    await run_jobs(pool, 5)
    await pool.execute(f"UPDATE jobqueue.event_cursors SET {strange} WHERE name = 'kafka'")
    async with relaying(pool, way, topic):
        await all_arrive(pool, listener)


async def test_a_refused_event_is_parked_the_rest_flows_and_it_can_be_resent(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    parked: list[Parked] = []
    figures: list[Backlog] = []
    ends = [EVENTS_PARKED.subscribe(parked.append), EVENT_FIGURES.subscribe(figures.append)]
    async with relaying(pool, way, topic, **{"message.max.bytes": 1_500}):
        await add_queue(pool)
        await submit(pool, 2)
        long, short = await claim(pool, 2)
        await settle(pool, long, Failed("x" * 5_000))
        await settle(pool, short)

        async def set_aside() -> bool:
            return len(parked) == 1

        await eventually(set_aside, within_s=30)
    (found,) = await list_parked(pool, after=0, limit=10)
    assert found.event.type == "job.failed"
    assert "size" in found.cause.lower()
    assert await resend_parked(pool, [found.event.event_id]) == 1
    async with relaying(pool, way, topic):
        await all_arrive(pool, listener)

        async def forgotten() -> bool:
            return not await list_parked(pool, after=0, limit=10)

        await eventually(forgotten)
    for end in ends:
        end()
    assert figures
