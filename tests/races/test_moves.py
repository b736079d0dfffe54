"""Operators against workers, with the rows held so that the race is certain."""

import asyncio

from jobqueue.domain.outcome import Failed
from jobqueue.store.jobs import cancel_job, retry_job
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import promote_jobs
from tests.store.conftest import Connect
from tests.support.store import (
    add_queue,
    claim_one,
    let_moves_wait,
    make_due,
    path,
    settle,
    status,
    submit,
    waits_for_lock,
)
from tests.support.waiting import HANG_S, eventually


async def test_a_cancel_that_meets_a_claim_asks_the_runner(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await let_moves_wait(db)
    (job_id,) = await submit(db)
    worker, operator = await another(), await another()
    async with worker.transaction():
        job = await claim_one(worker)
        cancelling = asyncio.create_task(cancel_job(operator, job_id, running=True))
        await eventually(lambda: waits_for_lock(db, operator), what="the cancel waits")
    assert (await cancelling).word == "REQUESTED"
    assert await settle(db, job, Failed("would be retried")) == "settled"
    assert (await path(db, job_id))[-2:] == ["FAILED:CANCELLED", "DEAD_LETTERED:CANCELLED"]


async def test_a_claim_that_meets_a_cancel_leaves_the_job_alone(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    cancelled_id, other_id = await submit(db, 2)
    operator = await another()
    async with operator.transaction():
        assert (await cancel_job(operator, cancelled_id, running=False)).word == "CANCELLED"
        job = await claim_one(db)
        assert job.job_id == other_id, "the held row is skipped"
    assert await status(db, cancelled_id) == "DEAD_LETTERED"


async def test_a_retry_that_meets_a_promotion_and_a_claim_tells_the_truth(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await let_moves_wait(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), Failed("boom"))
    await make_due(db)
    scheduler, operator = await another(), await another()
    async with scheduler.transaction():
        assert (await promote_jobs(scheduler, 10)).count == 1
        job = await claim_one(scheduler)
        retrying = asyncio.create_task(retry_job(operator, job_id))
        await eventually(lambda: waits_for_lock(db, operator), what="the retry waits")
    assert (await retrying).word == "RUNNING"
    assert job.attempt == 2
    assert (await path(db, job_id)).count("PENDING:OPERATOR_RETRY") == 0


async def test_a_promotion_that_meets_a_retry_skips_the_job(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), Failed("boom"))
    await make_due(db)
    operator = await another()
    async with operator.transaction():
        assert (await retry_job(operator, job_id)).word == "RETRIED"
        async with asyncio.timeout(HANG_S):
            assert (await promote_jobs(db, 10)).count == 0
    assert (await path(db, job_id))[-1] == "PENDING:OPERATOR_RETRY"
    assert (await claim_one(db)).job_id == job_id
