"""Relays for tests, and the comparison that every one of them ends with."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from jobqueue.config.model import KafkaSettings
from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Completed
from jobqueue.events.publisher import Publisher
from jobqueue.events.relay import Relay
from jobqueue.store.leases import settle_leases
from jobqueue.store.pool import Db, Pool
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.store import WORKER, claim, settlement, submit
from tests.support.waiting import eventually

ALL_EVENTS = """
    SELECT e.eid, coalesce(j.job_id, r.job_id)::text AS job_id, e.seq
    FROM jobqueue.job_events e LEFT JOIN jobqueue.jobs j ON j.id = e.job
    LEFT JOIN jobqueue.removed_jobs r ON r.id = e.job ORDER BY e.eid
"""


EVENTS_PER_JOB = 4


async def run_jobs(db: Db, count: int) -> None:
    """Take jobs of queue ``q`` from their submission to DONE."""
    await submit(db, count)
    jobs = await claim(db, count)
    assert len(jobs) == count
    ended = [settlement(job, Completed(b"")) for job in jobs]
    await settle_leases(db, worker=WORKER, settlements=ended)


LONG_S, SHORT_S = 30.0, 3.0
"""How long a relay holds the cursor: longer than a busy machine stalls, or soon over."""


def relay(pool: Pool, settings: KafkaSettings, lease_s: float = LONG_S, **options: Any) -> Relay:
    """Return a relay that is not started; ``options`` are of the vendor's producer."""
    publisher = Publisher(settings, **options)
    return Relay(pool, publisher, holder="test", event_bytes=Limits().event_bytes, lease_s=lease_s)


@asynccontextmanager
async def relaying(
    pool: Pool, way: Way, topic: str, lease_s: float = LONG_S, **options: Any
) -> AsyncIterator[Relay]:
    """Run one on the way to a broker."""
    async with relaying_to(pool, way.settings(topic), lease_s, **options) as running:
        yield running


@asynccontextmanager
async def relaying_to(
    pool: Pool, settings: KafkaSettings, lease_s: float = LONG_S, **options: Any
) -> AsyncIterator[Relay]:
    """Run one."""
    running = relay(pool, settings, lease_s, **options)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def recorded_events(pool: Pool) -> set[tuple[int, str, int]]:
    """Return event id, job id and sequence of every event of the database."""
    return {(row["eid"], row["job_id"], row["seq"]) for row in await pool.fetch(ALL_EVENTS)}


async def all_arrive(
    pool: Pool, listener: Listener, within_s: float = 40.0, without: Collection[int] = ()
) -> None:
    """Wait until Kafka has what the database has: each event, those of a job once and in order.

    ``without``: event ids that are not to arrive.
    """
    recorded = {each for each in await recorded_events(pool) if each[0] not in without}

    async def arrived() -> bool:
        await asyncio.to_thread(listener.listen)
        return len({each.event.event_id for each in listener.heard}) >= len(recorded)

    await eventually(arrived, within_s=within_s, what=f"{len(recorded)} events in Kafka")
    kept = listener.first_deliveries()
    assert {(e.event_id, e.job_id, e.sequence) for e in kept} == recorded
    assert len(kept) == len(recorded), "none is missed by one that drops what it has seen"
