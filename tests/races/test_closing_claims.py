"""Claims that wait for their connection: what comes meanwhile counts (R-4.7, R-4.8)."""

import asyncio

import pytest

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Completed
from jobqueue.errors import Unavailable
from jobqueue.lease import direct
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


async def queued(leases: direct.DirectLeases) -> asyncio.Task[list[LeasedJob]]:
    """Begin a claim, and return it when it waits for its connection, which somebody has."""
    claim = asyncio.create_task(leases.claim(1, running=True))

    async def waiting() -> bool:
        return bool(leases._claims._lock._waiters)

    await eventually(waiting, what="a claim that waits for its connection")
    return claim


async def test_a_claim_that_waits_takes_nothing_once_an_outcome_is_stuck(
    database: str, db: Connection
) -> None:
    await add_queue(db)
    await submit(db)
    async with open_leases(database, settings=SLOW) as leases:
        async with leases._claims._lock:
            claim = await queued(leases)
            leases._settler._trouble = Unavailable("down")
        assert await claim == []
    assert await db.fetchval("SELECT count(*) FROM jobqueue.ready") == 1


async def test_a_claim_that_was_not_sent_hides_no_lease_that_nobody_knows(
    database: str, db: Connection, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "CLAIM_FLIGHT_S", 1.001)
    await add_queue(db)
    await submit(db)
    strangers, holder = [Lease(1, 1)], await another()
    async with open_leases(database, settings=SLOW) as leases:
        async with leases._claims._lock:
            claim = await queued(leases)
            assert leases.disowned(strangers) == strangers
            await holder.execute("BEGIN; LOCK TABLE jobqueue.ready")
        await eventually(lambda: waits(db, "jq-worker"), what="a claim that waits for a lock")

        async def may_bring_them() -> bool:
            return leases.disowned(strangers) == ()

        await eventually(may_bring_them)
        await holder.execute("ROLLBACK")
        (job,) = await claim
        assert await settled(leases, job, Completed())
