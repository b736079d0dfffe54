"""Taking back what is overdue: pages of locked leases, settled by the reaper."""

from jobqueue.domain.outcome import Failed, LeaseExpired
from jobqueue.domain.state import Reason
from jobqueue.store.leases import (
    ExpiredLease,
    lock_expired_leases,
    lock_unstarted_leases,
    renew_leases,
)
from jobqueue.store.pool import Connection
from jobqueue.store.workers import register_worker
from tests.store.conftest import Connect
from tests.support.store import (
    WORKER,
    add_queue,
    claim,
    claim_one,
    expire_leases,
    last_event,
    path,
    row_of,
    settle,
    submit,
)
from tests.support.workers import facts


async def expired(db: Connection, *, after: int = 0, limit: int = 100) -> list[ExpiredLease]:
    return await lock_expired_leases(db, after=after, limit=limit)


async def test_only_leases_past_their_time_are_found_and_told_with_their_worker(
    db: Connection,
) -> None:
    await add_queue(db)
    number = await register_worker(db, facts("w-1"))
    await submit(db, 2)
    late, fresh = await claim(db, 2, worker=number)
    await db.execute(
        "UPDATE jobqueue.leases SET expires_at = now() - interval '10 s' WHERE id = $1",
        late.lease.job,
    )
    async with db.transaction():
        (found,) = await expired(db)
    assert (found.lease, found.queue, found.running, found.worker_id) == (
        late.lease,
        "q",
        True,
        "w-1",
    )
    assert found.charge.max_retries == late.max_retries
    assert 10.0 <= found.overdue_s < 60.0
    assert found.lease != fresh.lease


async def test_a_row_that_is_being_renewed_or_settled_is_skipped(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await submit(db, 2)
    held, free = await claim(db, 2)
    await expire_leases(db)
    holder = await another()
    async with holder.transaction():
        await renew_leases(holder, worker=WORKER, leases=[held.lease], lease_s=60.0)
        async with db.transaction():
            assert [one.lease for one in await expired(db)] == [free.lease]
    async with db.transaction():
        assert [one.lease for one in await expired(db)] == [free.lease]


async def test_two_reapers_never_see_the_same_lease(db: Connection, another: Connect) -> None:
    await add_queue(db)
    await submit(db, 10)
    await claim(db, 10)
    await expire_leases(db)
    other = await another()
    async with db.transaction(), other.transaction():
        mine = await expired(db, limit=6)
        theirs = await expired(other, limit=6)
    assert (len(mine), len(theirs)) == (6, 4)
    assert not {one.lease for one in mine} & {one.lease for one in theirs}


async def test_pages_go_on_after_a_job_that_cannot_be_settled(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 5)
    jobs = [job.lease.job for job in await claim(db, 5)]
    await expire_leases(db)
    seen, after = [], 0
    while page := await expired(db, after=after, limit=2):
        seen += [one.lease.job for one in page]
        after = seen[-1]
    assert seen == sorted(jobs)


async def test_a_reaped_job_is_charged_and_its_worker_is_in_the_record(db: Connection) -> None:
    await add_queue(db)
    number = await register_worker(db, facts("w-1"))
    (job_id,) = await submit(db)
    job = await claim_one(db, worker=number)
    assert await settle(db, job, LeaseExpired(running=True), worker=None) == "settled"
    event = await last_event(db, job_id)
    assert (event["reason"], event["worker_id"], event["token"]) == (
        "LEASE_EXPIRED",
        "w-1",
        job.lease.token,
    )
    waiting = await row_of(db, "scheduled", job_id)
    assert waiting is not None
    assert (waiting["retries"], waiting["crashes"], waiting["token"]) == (1, 1, None)


async def test_a_job_assigned_for_too_long_is_found_though_its_lease_is_renewed(
    db: Connection,
) -> None:
    await add_queue(db)
    await submit(db, 3)
    (running,) = await claim(db, 1)
    old, young = await claim(db, 2, running=False)
    await db.execute(
        "UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '100 s' WHERE id = ANY ($1)",
        [running.lease.job, old.lease.job],
    )
    await renew_leases(db, worker=WORKER, leases=[old.lease], lease_s=60.0)
    (found,) = await lock_unstarted_leases(db, timeout_s=50.0, after=0, limit=10)
    assert (found.lease, found.running) == (old.lease, False)
    assert 50.0 <= found.overdue_s < 100.0
    assert await lock_unstarted_leases(db, timeout_s=50.0, after=old.lease.job, limit=10) == []
    outcome = Failed("not started", Reason.ASSIGNMENT_TIMEOUT)
    assert await settle(db, old, outcome, worker=None) == "settled"
    assert (await path(db, old.job_id))[-1] == "FAILED:ASSIGNMENT_TIMEOUT"
    assert young.lease != old.lease
