"""Relays for tests, and the comparison that every one of them ends with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Completed
from jobqueue.events.publisher import Publisher
from jobqueue.events.relay import Relay
from jobqueue.store.leases import settle_leases
from jobqueue.store.pool import Pool
from tests.support.kafka import Listener, Way
from tests.support.store import WORKER, claim, settlement, submit
from tests.support.waiting import eventually

ALL_EVENTS = """
    SELECT e.eid, coalesce(j.job_id, r.job_id)::text AS job_id, e.seq
    FROM jobqueue.job_events e LEFT JOIN jobqueue.jobs j ON j.id = e.job
    LEFT JOIN jobqueue.removed_jobs r ON r.id = e.job ORDER BY e.eid
"""


EVENTS_PER_JOB = 4


async def run_jobs(pool: Pool, count: int) -> None:
    """Take jobs of queue ``q`` from their submission to DONE."""
    await submit(pool, count)
    jobs = await claim(pool, count)
    assert len(jobs) == count
    ended = [settlement(job, Completed(b"")) for job in jobs]
    await settle_leases(pool, worker=WORKER, settlements=ended)


def relay(pool: Pool, way: Way, topic: str, **options: Any) -> Relay:
    """Return a relay that is not started; ``options`` are of the vendor's producer."""
    publisher = Publisher(way.settings(topic), **options)
    return Relay(pool, publisher, holder="test", event_bytes=Limits().event_bytes, lease_s=3.0)


@asynccontextmanager
async def relaying(pool: Pool, way: Way, topic: str, **options: Any) -> AsyncIterator[Relay]:
    """Run one."""
    running = relay(pool, way, topic, **options)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def all_arrive(pool: Pool, listener: Listener, within_s: float = 40.0) -> None:
    """Wait until Kafka has what the database has: each event, those of a job once and in order."""
    recorded = {(row["eid"], row["job_id"], row["seq"]) for row in await pool.fetch(ALL_EVENTS)}

    async def arrived() -> bool:
        await asyncio.to_thread(listener.listen)
        return len({each.event.event_id for each in listener.heard}) >= len(recorded)

    await eventually(arrived, within_s=within_s, what=f"{len(recorded)} events in Kafka")
    kept = listener.first_deliveries()
    assert len(kept) == len(recorded), "none is missed by one that drops what it has seen"
    assert {(e.event_id, e.job_id, e.sequence) for e in kept} == recorded
