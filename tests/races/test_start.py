"""A start that is tried again while the first try is not through."""

import asyncio

from jobqueue.domain.lease import LeasedJob
from jobqueue.store.leases import start_leases
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.store import WORKER, add_queue, claim_one, path, submit, waits_for_lock
from tests.support.waiting import eventually


async def start(db: Connection, job: LeasedJob) -> tuple[str, bool]:
    (answer,) = await start_leases(db, worker=WORKER, leases=[job.lease], lease_s=60.0)
    return answer.state, answer.fresh


async def test_a_second_try_that_waits_for_the_first_one_to_commit_is_answered_started(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db, running=False)
    first, second = await another(), await another()
    async with first.transaction():
        assert await start(first, job) == ("started", True)
        again = asyncio.create_task(start(second, job))
        await eventually(lambda: waits_for_lock(db, second), what="a second start that waits")
    assert await again == ("started", False)
    assert len(await path(db, job_id)) == 3
