"""Rows that no program of ours stored: they harm themselves, and nothing beside them (R-9.4)."""

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest_asyncio

from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_service_pb2 as pb
from tests.support.facade import Facade, serving
from tests.support.remote import fake
from tests.support.store import path
from tests.support.waiting import eventually

RUNNABLE = (
    "UPDATE jobqueue.jobs SET labels = '[1]'",
    "UPDATE jobqueue.jobs SET labels = 'null'",
    "UPDATE jobqueue.jobs SET labels = '{\"a\": 1e400}'",
    "UPDATE jobqueue.jobs SET labels = jsonb_build_object('a', repeat('9', 5000)::numeric)",
    "UPDATE jobqueue.jobs SET trace_context = (repeat('[', 5000) || repeat(']', 5000))::jsonb",
    'UPDATE jobqueue.jobs SET trace_context = \'{"traceparent": "garbage", "": ""}\'',
    "UPDATE jobqueue.jobs SET timeout_s = 'NaN', ttl_s = 'Infinity'",
    "UPDATE jobqueue.jobs SET timeout_s = 'Infinity', ttl_s = -1",
    "UPDATE jobqueue.jobs SET created_at = '20000-01-01', not_before = 'infinity'",
    "UPDATE jobqueue.jobs SET created_at = '4000-01-01 BC', max_retries = -2147483648",
    "UPDATE jobqueue.jobs SET type = 'default', tenant = E'\\x01', priority = 32767",
    "UPDATE jobqueue.ready SET ready_at = '-infinity', retries = 32767, crashes = 32767",
    "UPDATE jobqueue.ready SET ready_at = '4000-01-01 BC', handbacks = 32767, unhandled = 32767",
)
EXHAUSTED = (
    "UPDATE jobqueue.ready SET attempt = 2147483647",
    "UPDATE jobqueue.ready SET seq = 2147483646",
)
"""No number is left for the next move: such a job stays where it is."""
QUEUES = (
    "UPDATE jobqueue.queues SET priority_weights = '[]'",
    'UPDATE jobqueue.queues SET priority_weights = \'{"a": "b", "9": -5, "0": 1e400}\'',
    "UPDATE jobqueue.queues SET multiplier = 'NaN', base_delay_s = 'Infinity', ttl_s = 'NaN'",
    "UPDATE jobqueue.queues SET created_at = '20000-01-01', max_delay_s = -1",
)
WORKERS = (
    "queues = array['a', NULL], types = array[NULL]::text[]",
    "queues = array[['a', 'b'], ['c', 'd']], types = array[['a']]",
    """clock_skew_ms = 9223372036854775807, started_at = '20000-01-01', last_beat_at = 'infinity',
        queues = '{}', types = '{}', mode = 'unheard-of'""",
)
WORKER = """
    UPDATE jobqueue.workers SET {}
    WHERE worker_id = (SELECT worker_id FROM jobqueue.worker_names WHERE name = 'planted')
"""


@pytest_asyncio.fixture
async def facade(database: str) -> AsyncIterator[Facade]:
    async with serving(database) as facade:
        yield facade


async def test_planted_jobs_are_shown_and_run_and_stop_no_other(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    planted = [await plant(facade, conn, row) for row in RUNNABLE]
    stuck = [await plant(facade, conn, row) for row in EXHAUSTED]
    bystander = await facade.submit()
    listed = {job.job_id for job in (await facade.jobs.ListJobs(pb.ListJobsRequest())).jobs}
    assert listed == {*planted, *stuck, bystander}
    for job_id in listed:
        assert (await facade.get(job_id)).job_id == job_id
    async with fake(facade, concurrency=len(listed)) as worker:
        taken = await worker.take(len(planted) + 1)
        assert {str(job.job_id) for job in taken} == {*planted, bystander}


async def test_a_job_that_no_message_can_hold_does_not_stop_a_remote_worker(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    row = "UPDATE jobqueue.jobs SET payload = convert_to(repeat('x', 37 * 1024 * 1024), 'UTF8')"
    large = await plant(facade, conn, row)
    bystander = await facade.submit()
    async with fake(facade) as worker:
        (job,) = await worker.take()
        assert str(job.job_id) == bystander

        async def handed_back() -> bool:
            return "FAILED:NO_HANDLER" in await path(conn, UUID(large))

        await eventually(handed_back, within_s=30.0, what="the large job is handed back")


async def test_a_planted_queue_or_worker_hides_no_other(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    names, jobs = [f"q{number}" for number in range(len(QUEUES))], set()
    for name, row in zip(names, QUEUES, strict=True):
        await facade.admin.CreateQueue(admin_pb.CreateQueueRequest(name=name))
        jobs.add(await facade.submit(name))
        assert await conn.execute(f"{row} WHERE name = $1", name) == "UPDATE 1"
    async with (
        fake(facade, worker_id="planted"),
        fake(facade, queues=names, concurrency=len(names)) as worker,
    ):
        for row in WORKERS:
            assert await conn.execute(WORKER.format(row)) == "UPDATE 1"
            status = await facade.admin.GetSystemStatus(admin_pb.GetSystemStatusRequest())
            assert {each.worker_id for each in status.workers} == {"planted", "w-1"}
            assert {each.worker_id for each in await facade.workers()} == {"planted", "w-1"}
        assert {each.queue for each in status.queues} == {"default", *names}
        queues = (await facade.admin.ListQueues(admin_pb.ListQueuesRequest())).queues
        assert {each.name for each in queues} == {"default", *names}
        assert {str(job.job_id) for job in await worker.take(len(jobs))} == jobs


async def plant(facade: Facade, conn: asyncpg.Connection, row: str) -> str:
    """Submit a job, do this to its row, and return its id."""
    job_id = await facade.submit()
    job = await conn.fetchval("SELECT id FROM jobqueue.jobs WHERE job_id = $1", UUID(job_id))
    assert await conn.execute(f"{row} WHERE id = $1", job) == "UPDATE 1"
    return job_id
