"""Claims that wait for their connection when a worker stops to claim (R-4.7, R-4.8)."""

import asyncio

from jobqueue.domain.outcome import Completed
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.leases import SLOW, open_leases
from tests.support.settling import settled
from tests.support.store import add_queue, submit, waits
from tests.support.waiting import eventually


async def test_a_claim_that_waits_behind_another_takes_nothing_once_claims_are_over(
    database: str, db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await submit(db, 2)
    holder = await another()
    async with open_leases(database, settings=SLOW) as leases:
        async with holder.transaction():
            await holder.execute("LOCK TABLE jobqueue.ready")
            first, second = (asyncio.create_task(leases.claim(1, running=True)) for _ in range(2))
            await eventually(lambda: waits(db, "jq-worker"), what="a claim that waits for a lock")
            leases.stop_claiming()
        (job,) = await first
        assert await second == []
        assert await settled(leases, job, Completed())
    assert await db.fetchval("SELECT count(*) FROM jobqueue.ready") == 1
