"""What becomes of events when Kafka, a relay or a message fails: they wait, move on, are parked."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import psutil
import pytest

from jobqueue.domain.limits import MIB
from jobqueue.domain.outcome import Failed
from jobqueue.events import pages
from jobqueue.events.publisher import MAX_IN_FLIGHT
from jobqueue.events.relay import CURSOR, Relay
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
from tests.support.store import add_queue, claim, restore_dump, settle, submit
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

        async def holds() -> bool:
            return running.state is RelayState.HOLDING

        async def fails() -> bool:
            return bool(failed) and running.state is RelayState.FAILING and way.refused > 0

        await add_queue(pool)
        await run_jobs(pool, 200)
        await all_arrive(pool, listener)
        await eventually(holds)
        way.cut()
        failed.clear()  # a busy machine may have exceeded the time before, too
        changes.clear()
        before = process.memory_info().rss
        for _ in range(5):
            await run_jobs(pool, 400)
        await eventually(fails, within_s=60, what="a failed delivery, and the way was cut")
        assert (await count_backlog(pool, CURSOR)).events > 1_000
        assert process.memory_info().rss - before < 64 * MIB
        assert running._publisher.most_in_flight <= MAX_IN_FLIGHT
        words = [change.state for change in changes]
        assert words.count(RelayState.FAILING) == 1, "one change, however many attempts"
        way.open()
        await all_arrive(pool, listener)
    for end in ends:
        end()


@pytest.mark.timeout(300)
async def test_a_kafka_that_takes_no_whole_page_in_time_gets_smaller_ones(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    options: dict[str, Any] = {"message.timeout.ms": 1_500, "compression.type": "none"}
    async with relaying(pool, way, topic, **options):
        await add_queue(pool)
        way.bytes_s = 100_000.0
        await submit(pool, 2_000)

        async def passed() -> bool:
            return (await count_backlog(pool, CURSOR)).events == 0

        await eventually(passed, within_s=90, what="a relay that has passed all")
        await all_arrive(pool, listener)


async def test_kafka_away_at_the_start_only_delays(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    way.cut()
    async with relaying(pool, way, topic, **{"message.timeout.ms": 3_000}) as running:
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
    first = relay(pool, way.settings(topic), SHORT_S)
    way.hold_answers()
    await first.start()
    await add_queue(pool)
    await run_jobs(pool, 300)

    async def under_way() -> bool:
        return way.answers_held > 0

    await eventually(under_way, what="a batch that is not confirmed")
    task = first._task
    assert task is not None
    first._lease = None  # a killed process gives nothing back
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await count_backlog(pool, CURSOR)).events > 0, "it died before it was done"
    way.release_answers()
    async with relaying(pool, way, topic):
        await all_arrive(pool, listener)
    await first.stop()


@asynccontextmanager
async def standing_still(one: Relay) -> AsyncIterator[None]:
    """Let a relay stand still between two turns, as a paused server does, until the block ends."""
    turn, stands, goes_on = one.turn, asyncio.Event(), asyncio.Event()

    async def wait() -> float | None:
        stands.set()
        await goes_on.wait()
        return await turn()

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(one, "turn", wait)
            async with asyncio.timeout(HANG_S):
                await stands.wait()
            yield
    finally:
        goes_on.set()


async def test_of_two_relays_one_publishes_and_each_takes_over_from_the_other(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    async with (
        relaying(pool, way, topic, SHORT_S) as one,
        relaying(pool, way, topic, SHORT_S) as two,
    ):
        await add_queue(pool)
        for paused in (one, two, one):
            async with standing_still(paused):
                await run_jobs(pool, 50)
                await pool.execute(EXPIRE)
                await all_arrive(pool, listener)

        async def one_holds() -> bool:
            states = {one.state, two.state}
            return states == {RelayState.HOLDING, RelayState.STANDBY}

        await eventually(one_holds)
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
            await locking.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
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


async def test_a_relay_comes_to_rest_after_a_restored_dump_whatever_its_transaction_ids(
    conn: Connection, pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    await add_queue(pool)
    await add_cursor(pool, CURSOR)
    await submit(pool, MAX_IN_FLIGHT + 1_000)
    await restore_dump(conn)
    async with relaying(pool, way, topic) as running:
        await all_arrive(pool, listener)
        await submit(pool, 1)
        await all_arrive(pool, listener)

        async def rests() -> bool:
            backlog = await count_backlog(pool, CURSOR)
            return backlog.events == 0 and running.state is RelayState.HOLDING

        await eventually(rests, within_s=30, what="a relay that has passed all")
    listener.listen()
    assert len(listener.heard) == MAX_IN_FLIGHT + 1_001, "each once"


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
