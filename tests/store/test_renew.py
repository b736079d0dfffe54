"""Renewals: each lease by itself, whoever holds the others."""

import asyncio

import pytest

from jobqueue.domain.lease import Lease, Renewal
from jobqueue.domain.outcome import Completed, Released
from jobqueue.store.jobs import cancel_job
from jobqueue.store.leases import (
    list_cancelled_leases,
    list_leases,
    renew_leases,
    settle_leases,
)
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.store import (
    WORKER,
    add_queue,
    claim,
    claim_one,
    expire_leases,
    settle,
    settlement,
    submit,
)
from tests.support.waiting import HANG_S


async def renew(db: Connection, *leases: Lease, worker: int = WORKER) -> dict[Lease, Renewal]:
    found = await renew_leases(db, worker=worker, leases=leases, lease_s=60.0)
    assert len(found) == len(set(leases))
    return {renewal.lease: renewal for renewal in found}


async def overdue(db: Connection) -> int:
    return int(await db.fetchval("SELECT count(*) FROM jobqueue.leases WHERE expires_at < now()"))


async def test_a_held_row_is_busy_and_stops_no_other_renewal(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await submit(db, 4)
    held, free, settled, stale = [job.lease for job in await claim(db, 4)]
    wrong = Lease(stale.job, stale.token + 1_000)
    await db.execute("UPDATE jobqueue.leases SET cancel_requested = true WHERE id = $1", free.job)
    await db.execute("UPDATE jobqueue.leases SET expires_at = now() - interval '1 s'")
    holder = await another()
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.leases WHERE id = $1 FOR UPDATE", held.job)
        found = await renew(db, held, free, settled, wrong)
        assert {lease: r.state for lease, r in found.items()} == {
            held: "busy",
            free: "renewed",
            settled: "renewed",
            wrong: "lost",
        }
        assert [lease for lease, r in found.items() if r.cancel_requested] == [free]
    assert await overdue(db) == 2
    assert (await renew(db, held))[held].state == "renewed"


async def test_the_lease_of_another_worker_is_lost_to_this_one(db: Connection) -> None:
    await add_queue(db)
    await submit(db)
    lease = (await claim_one(db)).lease
    await expire_leases(db)
    assert (await renew(db, lease, worker=WORKER + 1))[lease].state == "lost"
    assert await overdue(db) == 1


async def test_an_old_lease_of_a_job_is_lost_beside_its_new_one(db: Connection) -> None:
    await add_queue(db)
    await submit(db)
    old = await claim_one(db)
    await settle(db, old, Released())
    new = await claim_one(db)
    told = await renew(db, old.lease, new.lease)
    assert (told[old.lease].state, told[new.lease].state) == ("lost", "renewed")


async def test_a_settled_lease_is_lost(db: Connection) -> None:
    await add_queue(db)
    await submit(db)
    job = await claim_one(db)
    await settle(db, job)
    assert (await renew(db, job.lease))[job.lease].state == "lost"


async def test_a_settle_that_meets_a_renewal_still_wins(db: Connection, another: Connect) -> None:
    await add_queue(db)
    await submit(db, 30)
    jobs = await claim(db, 30)
    renewer, begun, stop = await another(), asyncio.Event(), asyncio.Event()

    async def keep_renewing() -> None:
        while not stop.is_set():
            await renew(renewer, *[job.lease for job in jobs])
            begun.set()

    renewals = asyncio.create_task(keep_renewing())
    async with asyncio.timeout(HANG_S):
        await begun.wait()
    for job in reversed(jobs):
        assert await settle(db, job) == "settled"
    stop.set()
    await renewals


async def test_renewals_and_batched_settles_never_deadlock(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    renewer = await another()
    for _ in range(10):
        await submit(db, 40)
        jobs = await claim(db, 40)
        ends = [settlement(job, Completed()) for job in reversed(jobs)]
        renewal = asyncio.create_task(renew(renewer, *[job.lease for job in jobs]))
        answers = await settle_leases(db, worker=WORKER, settlements=ends)
        await renewal
        assert {answer.state for answer in answers} == {"settled"}


@pytest.mark.parametrize("asked", [True, False])
async def test_cancelled_leases_are_told_by_id_and_token(db: Connection, *, asked: bool) -> None:
    await add_queue(db)
    await submit(db, 2)
    first, second = await claim(db, 2)
    if asked:
        await cancel_job(db, second.job_id, running=True)
    stale = Lease(second.lease.job, second.lease.token - 1_000)
    found = await list_cancelled_leases(db, [first.lease, second.lease, stale])
    assert found == ([second.lease] if asked else [])


async def test_a_worker_finds_the_leases_it_does_not_know_of(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 3)
    known, unknown = await claim(db, 2)
    await claim(db, 1, worker=WORKER + 1)
    await db.execute(
        "UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '10 s' WHERE id = $1",
        unknown.lease.job,
    )
    (found,) = await list_leases(db, worker=WORKER, older_than_s=5.0)
    assert (found.lease, found.running) == (unknown.lease, True)
    assert found.charge.max_retries == unknown.max_retries
    assert len(await list_leases(db, worker=WORKER, older_than_s=0.0)) == 2
    assert known.lease != unknown.lease
