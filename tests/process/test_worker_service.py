"""WorkerService over the wire, by scripted workers: what it gives, refuses and takes back."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest_asyncio

from jobqueue.domain.lease import LeasedJob
from jobqueue.testing import FakeWorker
from tests.support.facade import Facade, serving
from tests.support.soundness import assert_sound
from tests.support.store import path, status
from tests.support.waiting import eventually

TIMES = {"lease__duration_s": 3, "lease__renew_interval_s": 0.5, "reaper__interval_ms": 100}


@pytest_asyncio.fixture
async def facade(database: str, conn: asyncpg.Connection) -> AsyncIterator[Facade]:
    async with serving(database, **TIMES) as facade:
        yield facade
    await assert_sound(conn)


def fake(facade: Facade, **facts: Any) -> FakeWorker:
    return FakeWorker(f"127.0.0.1:{facade.port}", **{"worker_id": "w-1", **facts})


async def one(worker: FakeWorker) -> LeasedJob:
    (job,) = await worker.take()
    return job


async def started(worker: FakeWorker) -> LeasedJob:
    job = await one(worker)
    assert await worker.start(job) == ["STARTED"]
    return job


async def becomes(conn: asyncpg.Connection, job: LeasedJob, wanted: str) -> None:
    async def look() -> bool:
        return await status(conn, job.job_id) == wanted

    await eventually(look, what=f"{job.job_id} {wanted}")


async def test_a_job_brings_what_a_handler_needs_and_its_way_is_that_of_any_job(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    labels, trace = {"k": "v"}, {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}
    job_id = await facade.submit(
        type="mail", payload=b"\x00x", labels=labels, trace_context=trace, max_retries=2
    )
    async with fake(facade, types=["mail"]) as worker:
        job = await started(worker)
        assert str(job.job_id) == job_id
        assert (job.type, job.payload, job.labels) == ("mail", b"\x00x", labels)
        assert (job.trace_context, job.attempt, job.max_retries) == (trace, 1, 2)
        assert await worker.done(job, b"sent")
    found = await facade.get(job_id)
    assert (found.result, found.worker_id) == (b"sent", "w-1")
    assert await path(conn, job.job_id) == [
        "PENDING:SUBMITTED",
        "ASSIGNED:CLAIMED",
        "RUNNING:STARTED",
        "DONE:COMPLETED",
    ]
