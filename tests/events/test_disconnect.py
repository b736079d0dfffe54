"""Kafka is switched off for good: nothing is kept for it any more, nothing is lost by mistake."""

import asyncio

import pytest

from jobqueue.errors import FailedPrecondition, NotFound
from jobqueue.events.parking import Parking
from jobqueue.events.relay import CURSOR
from jobqueue.store.events import count_backlog
from jobqueue.store.pool import Pool
from tests.support.facade import serving
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.programs import run_ctl
from tests.support.relays import (
    EVENTS_PER_JOB,
    SHORT_S,
    all_arrive,
    recorded_events,
    relaying,
    run_jobs,
)
from tests.support.store import add_queue
from tests.support.waiting import eventually

CURSORS = "SELECT name FROM jobqueue.event_cursors ORDER BY name"
EXPIRE = "UPDATE jobqueue.event_cursors SET expires_at = now() WHERE name = 'kafka'"
PARK = """
    INSERT INTO jobqueue.parked_events
        (event_id, job_id, queue, sequence, to_status, at, reason, attempt, cause)
    VALUES (1, gen_random_uuid(), 'q', 1, 'PENDING', now(), 'SUBMITTED', 0, 'too large')
"""


async def names(pool: Pool) -> list[str]:
    return [row["name"] for row in await pool.fetch(CURSORS)]


async def test_events_that_wait_or_are_parked_are_dropped_only_by_force(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    parking = Parking(pool)
    await add_queue(pool)
    async with relaying(pool, way, topic):
        await run_jobs(pool, 3)
        await all_arrive(pool, listener)
        with pytest.raises(FailedPrecondition, match="test publishes: take kafka"):
            await parking.disconnect(force=True)
    await run_jobs(pool, 2)
    await pool.execute(PARK)
    dropped = 2 * EVENTS_PER_JOB + 1
    with pytest.raises(FailedPrecondition, match=f"^{dropped} events would never"):
        await parking.disconnect(force=False)
    assert await names(pool) == ["kafka", "stats"]
    assert await parking.disconnect(force=True) == dropped
    assert await names(pool) == ["stats"]
    assert not await parking.page(0, 10)
    with pytest.raises(NotFound):
        await parking.disconnect(force=False)


async def test_where_nothing_waits_no_force_is_needed_and_a_new_relay_begins_anew(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    await add_queue(pool)
    async with relaying(pool, way, topic):
        await run_jobs(pool, 1)
        await all_arrive(pool, listener)
    assert await Parking(pool).disconnect(force=False) == 0
    await run_jobs(pool, 2)
    between = {eid for eid, _, _ in await recorded_events(pool)}
    between -= {each.event.event_id for each in listener.heard}
    async with relaying(pool, way, topic):
        await run_jobs(pool, 3)
        await all_arrive(pool, listener, without=between)


async def test_a_relay_that_was_thought_dead_makes_its_cursor_again(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    async with relaying(pool, way, topic, SHORT_S):
        await add_queue(pool)
        await run_jobs(pool, 1)
        await all_arrive(pool, listener)
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(EXPIRE)  # its lease ends, as when it is paused
            await connection.execute("DELETE FROM jobqueue.event_cursors WHERE name = 'kafka'")

        async def is_back() -> bool:
            return "kafka" in await names(pool)

        await eventually(is_back, within_s=30)
        await run_jobs(pool, 2)
        await all_arrive(pool, listener)


async def test_jq_ctl_disconnects_a_server_without_kafka(
    database: str, pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    await add_queue(pool)
    async with relaying(pool, way, topic):
        await run_jobs(pool, 1)
        await all_arrive(pool, listener)
    await run_jobs(pool, 1)
    assert (await count_backlog(pool, CURSOR)).events == EVENTS_PER_JOB
    async with serving(database) as server:
        address = f"127.0.0.1:{server.port}"
        told = await asyncio.to_thread(run_ctl, address, "events", "disconnect")
        assert (told.returncode, told.stdout) == (4, b"")
        assert b"4 events would never reach Kafka" in told.stderr
        told = await asyncio.to_thread(run_ctl, address, "events", "disconnect", "--force")
        assert (told.returncode, told.stdout) == (0, b"DISCONNECTED (4 events dropped)\n")
