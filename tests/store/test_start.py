"""ASSIGNED→RUNNING, and the TTL that ends there."""

from datetime import timedelta

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Released
from jobqueue.store.leases import start_leases
from jobqueue.store.pool import Connection
from tests.support.store import (
    WORKER,
    add_queue,
    claim,
    claim_one,
    end_ttl,
    expire_leases,
    last_event,
    path,
    row_of,
    settle,
    submit,
)


async def start(db: Connection, *jobs: LeasedJob, worker: int = WORKER) -> list[str]:
    leases = [job.lease for job in jobs]
    answers = await start_leases(db, worker=worker, leases=leases, lease_s=60.0)
    states = {answer.lease: answer.state for answer in answers}
    return [states[lease] for lease in leases]


async def test_a_started_job_runs_under_a_fresh_lease_and_no_ttl(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, ttl_s=60.0)
    await db.execute("UPDATE jobqueue.ready SET handbacks = 4, unhandled = 3")
    job = await claim_one(db, running=False)
    await expire_leases(db)
    assert await start(db, job) == ["started"]
    assert await path(db, job_id) == ["PENDING:SUBMITTED", "ASSIGNED:CLAIMED", "RUNNING:STARTED"]
    lease = await row_of(db, "leases", job_id)
    assert lease is not None
    assert (lease["attempt"], lease["handbacks"], lease["unhandled"]) == (1, 0, 0)
    assert lease["ttl_expires_at"] is None
    assert lease["expires_at"] - lease["started_at"] >= timedelta(seconds=59)  # type: ignore[operator]
    event = await last_event(db, job_id)
    assert (event["attempt"], event["token"]) == (1, job.lease.token)


async def test_a_repeated_start_is_answered_started_and_counted_once(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db, running=False)
    assert [await start(db, job) for _ in range(2)] == [["started"]] * 2
    assert await start(db, job, job) == ["started"] * 2
    assert len(await path(db, job_id)) == 3


async def test_a_job_whose_ttl_is_over_is_refused_at_start(db: Connection) -> None:
    await add_queue(db)
    (late,) = await submit(db, ttl_s=60.0)
    (good,) = await submit(db)
    jobs = {job.job_id: job for job in await claim(db, 2, running=False)}
    await end_ttl(db)
    assert await start(db, jobs[late], jobs[good]) == ["expired", "started"]
    assert await path(db, late) == [
        "PENDING:SUBMITTED",
        "ASSIGNED:CLAIMED",
        "FAILED:TTL_EXPIRED",
        "DEAD_LETTERED:TTL_EXPIRED",
    ]
    finished = await row_of(db, "finished", late)
    assert finished is not None
    assert (finished["dead"], finished["started_at"], finished["attempt"]) == (True, None, 0)


async def test_a_wrong_token_or_worker_starts_nothing(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db, running=False)
    stale = Lease(job.lease.job, job.lease.token - 1)
    (answer,) = await start_leases(db, worker=WORKER, leases=[stale], lease_s=60.0)
    assert answer.state == "lost"
    assert await start(db, job, worker=WORKER + 1) == ["lost"]
    assert len(await path(db, job_id)) == 2


async def test_an_old_lease_of_a_job_starts_nothing_beside_its_new_one(db: Connection) -> None:
    await add_queue(db)
    await submit(db, ttl_s=60.0)
    old = await claim_one(db, running=False)
    await settle(db, old, Released())
    new = await claim_one(db, running=False)
    assert await start(db, old, new) == ["lost", "started"]


async def test_a_job_that_runs_is_started_for_the_holder_of_its_lease_alone(
    db: Connection,
) -> None:
    await add_queue(db)
    await submit(db)
    old = await claim_one(db, running=False)
    await settle(db, old, Released())
    new = await claim_one(db)
    assert await start(db, old) == ["lost"]
    assert await start(db, new, worker=WORKER + 1) == ["lost"]
    assert await start(db, new) == ["started"]


async def test_an_old_lease_of_a_job_is_not_what_its_ttl_ends(db: Connection) -> None:
    await add_queue(db)
    await submit(db, ttl_s=60.0)
    old = await claim_one(db, running=False)
    await settle(db, old, Released())
    new = await claim_one(db, running=False)
    await end_ttl(db)
    assert await start(db, old, new) == ["lost", "expired"]


async def test_a_settled_job_cannot_be_started(db: Connection) -> None:
    await add_queue(db)
    await submit(db)
    job = await claim_one(db)
    await settle(db, job)
    assert await start(db, job) == ["lost"]
