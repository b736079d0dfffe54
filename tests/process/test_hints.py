"""What ends a worker's wait for jobs: hints, and the cut of the connection that hears them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from jobqueue.store.pool import Connection, connect
from jobqueue.store.wakeups import notify_queues
from tests.support.facade import serving
from tests.support.leases import open_leases
from tests.support.programs import WorkerProgram
from tests.support.store import add_queue, cut, path, status, submit
from tests.support.waiting import HANG_S, eventually


@pytest_asyncio.fixture
async def db(database: str) -> AsyncIterator[Connection]:
    """A connection to a database with one queue."""
    connection = await connect(database, connect_timeout_s=HANG_S)
    await add_queue(connection)
    yield connection
    await connection.close()


async def test_a_hint_ends_the_wait_and_others_hints_do_not(database: str, db: Connection) -> None:
    async with open_leases(database) as leases:
        assert await leases.claim(1, running=True) == []
        assert await leases.wait_for_work(20.0), "hints were missed until the first claim"
        await notify_queues(db, ["somebody elses"])
        assert not await leases.wait_for_work(0.2)
        waiting = asyncio.create_task(leases.wait_for_work(20.0))
        await notify_queues(db, ["q"])
        assert await waiting
        assert not await leases.wait_for_work(0.01)


async def test_the_cut_of_what_listens_is_a_hint_and_the_next_claim_listens_again(
    database: str, db: Connection
) -> None:
    async with open_leases(database) as leases:
        for _ in range(2):
            assert await leases.claim(1, running=True) == []
            assert await leases.wait_for_work(20.0), "hints were missed until this claim"
            assert await cut(db, "jq-worker") == 1
            assert await leases.wait_for_work(20.0), "claim now: nothing else would connect"
        assert await leases.claim(1, running=True) == []
        assert await leases.wait_for_work(20.0)
        waiting = asyncio.create_task(leases.wait_for_work(20.0))
        await notify_queues(db, ["q"])
        assert await waiting


async def test_a_killed_holders_place_in_a_full_queue_is_announced_with_the_end_of_its_lease(
    database: str, db: Connection, tmp_path: Path
) -> None:
    await add_queue(db, "full", max_running=1, max_retries=0)
    (held,) = await submit(db, queue="full", type="async-sleeps")
    lease = {"lease_duration_s": 6, "lease_renew_interval_s": 0.5}
    holder = WorkerProgram(database, tmp_path, "--queues", "full", **lease)

    async def runs() -> bool:
        return await status(db, held) == "RUNNING"

    try:
        await eventually(runs, what="the first of them")
        async with (
            serving(database, reaper__interval_ms=100),
            open_leases(database, queues=["full"], types=["async-sleeps"]) as leases,
        ):
            assert await leases.claim(1, running=True) == []
            assert await leases.wait_for_work(HANG_S), "hints were missed until the first claim"
            (waiting,) = await submit(db, queue="full", type="async-sleeps")
            assert await leases.claim(1, running=True) == []
            holder.kill()
            assert await leases.wait_for_work(HANG_S), "here nobody asks without a hint"
            assert (await path(db, held))[-1] == "DEAD_LETTERED:RETRIES_EXHAUSTED"
            (job,) = await leases.claim(1, running=True)
            assert job.job_id == waiting
    finally:
        holder.kill()
