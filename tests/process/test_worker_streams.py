"""Streams of jobs to remote workers: room, cuts, take-overs, many at once."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.limits import MIB
from jobqueue.domain.worker import WorkerCommand
from jobqueue.errors import NotFound, Unavailable
from jobqueue.testing import FakeWorker
from tests.support.facade import Facade, serving
from tests.support.remote import TIMES, fake, one, started
from tests.support.soundness import assert_sound
from tests.support.store import status
from tests.support.waiting import HANG_S, eventually


@pytest_asyncio.fixture
async def facade(database: str, conn: asyncpg.Connection) -> AsyncIterator[Facade]:
    async with serving(database, **TIMES) as facade:
        yield facade
    await assert_sound(conn)


async def test_no_more_jobs_are_sent_than_the_worker_has_room_for(facade: Facade) -> None:
    for _ in range(9):
        await facade.submit()
    async with fake(facade, concurrency=2, prefetch=1) as worker:
        await worker.keep_alive()
        jobs = await worker.take(3)
        assert await worker.nothing_within(2.5), "longer than a look for room nobody told of"
        await worker.start(*jobs)
        assert await worker.done(jobs[0])
        (fourth,) = await worker.take()
        assert await worker.nothing_within(0.3)
        assert fourth.lease not in {job.lease for job in jobs}


async def test_large_jobs_are_claimed_a_few_at_a_time_however_much_room_there_is(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    for _ in range(12):
        await facade.submit(payload=bytes(MIB))
    async with fake(facade, concurrency=10_000) as worker:
        jobs = await worker.take(12)
        assert {len(job.payload) for job in jobs} == {MIB}
    largest = await conn.fetchval(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM jobqueue.job_events"
        " WHERE reason = 'CLAIMED' GROUP BY xmin::text) claims"
    )
    assert largest == 4


async def test_room_that_another_server_hears_of_is_found(facade: Facade, database: str) -> None:
    await facade.submit()
    await facade.submit()
    async with serving(database, **TIMES) as other, fake(facade) as worker:
        job = await started(worker)
        async with FakeWorker(f"127.0.0.1:{other.port}", worker_id="w-1") as same:
            assert same.session == worker.session
            assert await same.done(job)
            await worker.take()
            await worker.vanish()


async def test_room_that_another_server_hears_of_is_found_while_jobs_are_submitted_all_the_time(
    facade: Facade, database: str
) -> None:
    await facade.submit()
    async with serving(database, **TIMES) as other, fake(facade) as worker:
        job = await started(worker)
        submitting = asyncio.create_task(submit_all_the_time(facade))
        try:
            async with FakeWorker(f"127.0.0.1:{other.port}", worker_id="w-1") as same:
                assert await same.done(job)
                await worker.take(within_s=HANG_S)
                assert not submitting.done()
                await worker.vanish()
        finally:
            submitting.cancel()
            await asyncio.gather(submitting, return_exceptions=True)


async def submit_all_the_time(facade: Facade) -> None:
    """Submit far more often than a full stream looks for room, each with its hint."""
    while True:
        await facade.submit()
        await asyncio.sleep(0.1)


async def test_a_cut_stream_gives_back_at_once_what_was_not_taken(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    for _ in range(4):
        await facade.submit()
    async with fake(facade, concurrency=4) as worker:
        job = await started(worker)
        await worker.cut_stream()
        await worker.release(strays=True)

        async def only_ours() -> bool:
            held = await conn.fetch("SELECT id FROM jobqueue.leases")
            return [row["id"] for row in held] == [job.lease.job]

        await eventually(only_ours, what="the release of the others")
        handed_back = await conn.fetchval(
            "SELECT count(*) FROM jobqueue.job_event_log WHERE reason = 'LEASE_EXPIRED'"
        )
        assert handed_back == 0


async def test_a_new_stream_takes_over_and_finds_what_the_old_one_lost(facade: Facade) -> None:
    for _ in range(3):
        await facade.submit()
    async with fake(facade, concurrency=3) as worker:
        job = await started(worker)
        async with fake(facade, concurrency=3) as again:
            # The same worker after a cut: what it holds it names, the rest comes anew.
            again._held[job.lease] = job
            others = await again.take(2)
            assert job.job_id not in {other.job_id for other in others}
            await again.start(*others)
            assert all([await again.done(each) for each in (job, *others)])
            await worker.vanish()


async def test_a_stream_that_was_replaced_on_another_server_sends_nothing_more(
    facade: Facade, database: str, conn: asyncpg.Connection
) -> None:
    async with serving(database, **TIMES) as other, fake(facade) as worker:
        assert await worker.nothing_within(0.1)  # open and idle, as one whose other end is gone
        async with FakeWorker(f"127.0.0.1:{other.port}", worker_id="w-1") as again:
            assert await again.nothing_within(0.1)
            await facade.submit()
            job = await started(again)
            await again.keep_alive()
            second = await facade.submit()  # there is no room for it but on the old stream
            with pytest.raises(Unavailable, match="ended the stream"):
                await worker.take()
            assert (await facade.becomes(second, "PENDING")).attempt == 0
            assert await again.done(job)
            assert str((await one(again)).job_id) == second
            await again.vanish()
    assert await facade.workers() == []


async def test_a_worker_that_deregisters_hands_back_what_it_did_not_start(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    for _ in range(2):
        await facade.submit()
    async with fake(facade, concurrency=2) as worker:
        running, waiting = await worker.take(2)
        await worker.start(running)
    assert await facade.workers() == []
    assert await status(conn, waiting.job_id) == "PENDING"
    assert await status(conn, running.job_id) == "RUNNING"


async def test_a_worker_nobody_knows_is_told_to_register(facade: Facade) -> None:
    async with fake(facade) as worker:
        await worker.deregister()
        with pytest.raises(NotFound):
            await worker.heartbeat()
        with pytest.raises(NotFound):
            await worker.take()
        await worker.register()
        assert await worker.hears() is WorkerCommand.NONE


async def test_cut_database_connections_cost_no_job(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    await facade.submit()
    async with fake(facade) as worker:
        await worker.keep_alive()
        first = await started(worker)
        cut = await conn.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'jq-server%'"
        )
        assert cut, "there was no connection to cut"
        assert await worker.done(first)
        second = await facade.submit()

        async def taken() -> list[LeasedJob]:
            try:
                return await worker.take()
            except Unavailable:
                return []

        (job,) = await eventually(taken, what="the next job")
        assert str(job.job_id) == second
        assert await worker.start(job) == ["STARTED"]
        assert await worker.done(job)


async def test_a_hint_brings_a_new_job_to_an_idle_worker(facade: Facade) -> None:
    async with fake(facade) as worker:
        assert await worker.nothing_within(1.0)
        job_id = await facade.submit()
        assert str((await one(worker)).job_id) == job_id


async def test_a_hundred_workers_share_one_server_within_its_connections(
    database: str, conn: asyncpg.Connection
) -> None:
    async with serving(database, db__pool_size=5) as facade:
        async with asyncio.TaskGroup() as group:
            done = [group.create_task(work_one(facade, f"w-{i}")) for i in range(100)]
            for _ in range(100):
                group.create_task(facade.submit())
        assert all(task.result() for task in done)
        mine = await conn.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        assert mine <= 5 + 3
    await assert_sound(conn)


async def work_one(facade: Facade, name: str) -> bool:
    async with fake(facade, worker_id=name) as worker:
        await worker.keep_alive()
        (job,) = await worker.take(within_s=60.0)
        # Others get theirs while we hold this one: each worker does just one.
        await worker.cut_stream()
        await worker.start(job)
        return await worker.done(job)
