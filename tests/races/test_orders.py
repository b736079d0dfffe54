"""Every order of all that can happen to one job at once, forced by held rows (R-3, R-4.1)."""

from itertools import permutations
from uuid import UUID

import pytest

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Completed, Outcome, Released
from jobqueue.lease.takeover import Takeover, expired
from jobqueue.store.jobs import cancel_job, delete_job, retry_job
from jobqueue.store.leases import renew_leases, start_leases
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import expire_jobs, promote_jobs
from tests.store.conftest import Connect
from tests.support.orders import SKIPPED, Move, Prepare, Rivals, Subject
from tests.support.store import (
    FAILURE,
    WORKER,
    add_queue,
    claim,
    claim_one,
    end_ttl,
    expire_leases,
    let_moves_wait,
    make_due,
    settle,
    submit,
)

OTHER_WORKER = 2


def cancel(job_id: UUID) -> Move:
    async def move(db: Connection) -> str:
        return (await cancel_job(db, job_id, running=True)).word

    return move


def retry(job_id: UUID) -> Move:
    async def move(db: Connection) -> str:
        return (await retry_job(db, job_id)).word

    return move


def delete(job_id: UUID) -> Move:
    async def move(db: Connection) -> str:
        return await delete_job(db, job_id)

    return move


def end(job: LeasedJob, outcome: Outcome) -> Move:
    async def move(db: Connection) -> str:
        return await settle(db, job, outcome)

    return move


def start(job: LeasedJob) -> Move:
    async def move(db: Connection) -> str:
        (answer,) = await start_leases(db, worker=WORKER, leases=[job.lease], lease_s=60.0)
        return answer.state

    return move


def renew(job: LeasedJob) -> Move:
    async def move(db: Connection) -> str:
        (renewal,) = await renew_leases(db, worker=WORKER, leases=[job.lease], lease_s=60.0)
        return SKIPPED if renewal.state == "busy" else renewal.state

    return move


async def reap(db: Connection) -> str:
    return str((await Takeover(expired(), page_size=10, crash_limit=3).step(db)).taken)


async def take(db: Connection) -> str:
    return str(len(await claim(db, 1, worker=OTHER_WORKER)))


async def promote(db: Connection) -> str:
    return str((await promote_jobs(db, 10)).count)


async def end_of_ttl(db: Connection) -> str:
    return str((await expire_jobs(db, 10)).total())


async def lapsed(db: Connection, *, running: bool) -> LeasedJob:
    """Return a job whose lease is over; nobody has noticed."""
    await submit(db)
    job = await claim_one(db, running=running)
    await expire_leases(db)
    return job


async def completing(db: Connection) -> Subject:
    job = await lapsed(db, running=True)
    moves = {"complete": end(job, Completed(b"ok")), "reap": reap}
    return Subject(job.job_id, {**moves, "cancel": cancel(job.job_id), "retry": retry(job.job_id)})


async def failing(db: Connection) -> Subject:
    job = await lapsed(db, running=True)
    moves = {"fail": end(job, FAILURE), "reap": reap}
    return Subject(job.job_id, {**moves, "cancel": cancel(job.job_id), "retry": retry(job.job_id)})


async def renewing(db: Connection) -> Subject:
    job = await lapsed(db, running=True)
    moves = {"renew": renew(job), "reap": reap, "complete": end(job, Completed(b"ok"))}
    return Subject(job.job_id, moves)


async def starting(db: Connection) -> Subject:
    job = await lapsed(db, running=False)
    moves = {"start": start(job), "reap": reap, "cancel": cancel(job.job_id)}
    return Subject(job.job_id, {**moves, "release": end(job, Released())})


async def waiting_for_a_retry(db: Connection) -> Subject:
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), FAILURE)
    await make_due(db)
    moves = {"promote": promote, "claim": take}
    return Subject(job_id, {**moves, "cancel": cancel(job_id), "retry": retry(job_id)})


async def delayed_beyond_its_ttl(db: Connection) -> Subject:
    (job_id,) = await submit(db, delay_s=3600.0, ttl_s=3600.0)
    await make_due(db)
    await end_ttl(db)
    return Subject(job_id, {"promote": promote, "ttl": end_of_ttl, "cancel": cancel(job_id)})


async def dead(db: Connection) -> Subject:
    (job_id,) = await submit(db)
    await cancel_job(db, job_id, running=False)
    moves = {"retry": retry(job_id), "again": retry(job_id), "delete": delete(job_id)}
    return Subject(job_id, moves)


async def rivals_of(db: Connection, another: Connect, prepare: Prepare) -> Rivals:
    await add_queue(db)
    await let_moves_wait(db)
    holder, *others = [await another() for _ in range(5)]
    return Rivals(db, holder, others, prepare)


@pytest.mark.parametrize(
    ("prepare", "skipping", "waiting"),
    [
        (completing, {"reap"}, {"complete", "cancel", "retry"}),
        (failing, {"reap"}, {"fail", "cancel", "retry"}),
        (renewing, {"reap", "renew"}, {"complete"}),
        (starting, {"reap"}, {"start", "release", "cancel"}),
        (waiting_for_a_retry, {"promote", "claim"}, {"cancel", "retry"}),
        (delayed_beyond_its_ttl, {"promote", "ttl"}, {"cancel"}),
        (dead, set(), {"retry", "again", "delete"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_moves_of_a_job_that_meet_one_by_one_do_what_some_order_of_them_would_do(
    db: Connection, another: Connect, prepare: Prepare, skipping: set[str], waiting: set[str]
) -> None:
    rivals = await rivals_of(db, another, prepare)
    for order in permutations(await rivals.learn(skipping)):
        result = await rivals.chain(order)
        assert rivals.explain(result), f"{order}: {result}"
    assert rivals.waited == waiting, "they met"


@pytest.mark.parametrize(
    ("prepare", "waiting"),
    [(completing, {"complete", "cancel"}), (failing, {"fail", "cancel"})],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_moves_of_a_job_that_wait_for_it_together_do_what_some_order_of_them_would_do(
    db: Connection, another: Connect, prepare: Prepare, waiting: set[str]
) -> None:
    rivals = await rivals_of(db, another, prepare)
    for order in permutations(await rivals.learn({"reap"})):
        result = await rivals.crowd(order)
        assert rivals.explain(result), f"{order}: {result}"
    assert rivals.waited == waiting, "these change what is held"
