"""A server that hands jobs back, against the worker that starts them (R-4.1, I4)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest
import pytest_asyncio

from jobqueue.lease.desk import Desk
from jobqueue.store.leases import start_leases
from jobqueue.store.pool import Connection, Pool, transaction
from jobqueue.store.workers import register_worker
from tests.store.conftest import Connect
from tests.support.remote import make_desk
from tests.support.store import WAITS, add_queue, claim, path, status, submit
from tests.support.waiting import eventually
from tests.support.workers import facts


@pytest_asyncio.fixture
async def desk(pool: Pool, database: str) -> AsyncIterator[Desk]:
    made = make_desk(pool, database)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def worker(db: Connection) -> int:
    await add_queue(db)
    return await register_worker(db, facts())


async def test_the_end_of_a_stream_leaves_the_job_alone_that_was_sent_last_and_is_started(
    desk: Desk, db: Connection, worker: int
) -> None:
    await submit(db, 2)
    async with aclosing(desk.stream(worker, [])) as jobs:
        sent = await anext(jobs)
        (answer,) = await desk.start(worker, [sent.lease])
        assert answer.state == "started"
        (other,) = await db.fetch("SELECT job_id FROM jobqueue.jobs WHERE id <> $1", sent.lease.job)
        assert await status(db, other["job_id"]) == "ASSIGNED", "it is to be sent next"
    await desk.close()
    assert await status(db, other["job_id"]) == "PENDING"
    assert await status(db, sent.job_id) == "RUNNING"


async def test_a_stream_ends_by_itself_so_that_the_next_one_may_go_elsewhere(
    desk: Desk, db: Connection, worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(db, 1)
    monkeypatch.setattr("jobqueue.lease.desk.STREAM_S", 0.0)
    sent = [job async for job in desk.stream(worker, [])]
    await desk.close()
    assert len(sent) <= 1


async def release_strays(desk: Desk, worker: int) -> None:
    await desk.release(worker, [], strays_but=())


async def open_a_stream(desk: Desk, worker: int) -> None:
    async with aclosing(desk.stream(worker, [])) as jobs:
        await anext(jobs)


@pytest.mark.parametrize("hand_back", [release_strays, Desk.deregister, open_a_stream])
async def test_a_hand_back_waits_for_a_start_and_leaves_what_it_started(
    desk: Desk,
    db: Connection,
    worker: int,
    another: Connect,
    hand_back: Callable[[Desk, int], Coroutine[Any, Any, None]],
) -> None:
    await submit(db, 2)
    starts, stays = await claim(db, 2, worker=worker, running=False)
    starter = await another()
    async with transaction(starter):
        (answer,) = await start_leases(starter, worker=worker, leases=[starts.lease], lease_s=60.0)
        assert answer.state == "started"
        handing_back = asyncio.create_task(hand_back(desk, worker))
        pid = await starter.fetchval("SELECT pg_backend_pid()")
        await eventually(lambda: db.fetchval(WAITS, pid), what="a hand-back that waits")
    await handing_back
    await desk.close()
    assert await status(db, starts.job_id) == "RUNNING"
    assert "FAILED:RELEASED" not in await path(db, starts.job_id)
    assert "PENDING:RELEASED" in await path(db, stays.job_id)
