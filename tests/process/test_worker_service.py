"""WorkerService over the wire, by scripted workers: what it gives, refuses and takes back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import (
    Cancelled,
    Completed,
    Failed,
    Outcome,
    Postponed,
    Refused,
    Released,
    Unhandled,
)
from jobqueue.domain.state import Reason
from jobqueue.domain.worker import WorkerCommand
from jobqueue.errors import InvalidArgument, NotFound
from jobqueue.testing import FakeWorker
from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_service_pb2 as jobs_pb
from tests.support.facade import Facade, serving
from tests.support.soundness import assert_sound
from tests.support.store import end_ttl, expire_leases, path, row_of, status
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


@pytest.mark.parametrize(
    ("outcome", "wanted", "reason"),
    [
        (Completed(b"r"), "DONE", "COMPLETED"),
        (Failed("no"), "FAILED", "HANDLER_FAILED"),
        (Failed("slow", Reason.TIMED_OUT), "FAILED", "TIMED_OUT"),
        (Postponed(60.0, "later"), "FAILED", "RETRY_LATER"),
        (Refused("never"), "DEAD_LETTERED", "REFUSED"),
        (Cancelled("stopped"), "DEAD_LETTERED", "CANCELLED"),
        (Unhandled("no handler"), "FAILED", "NO_HANDLER"),
        (Released("ending"), "PENDING", "RELEASED"),
    ],
)
async def test_the_server_decides_where_each_outcome_leads(
    facade: Facade, conn: asyncpg.Connection, outcome: Outcome, wanted: str, reason: str
) -> None:
    await facade.submit()
    async with fake(facade) as worker:
        job = await started(worker)
        await worker.cut_stream()
        assert await worker.report(job, outcome) == "SETTLED"
        assert await status(conn, job.job_id) == wanted
        assert reason in (await path(conn, job.job_id))[-1]


async def test_a_report_repeated_after_an_unclear_answer_is_recorded_once(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    await facade.submit(max_retries=1)
    async with fake(facade) as worker:
        job = await started(worker)
        told = [await worker.report(job, Failed("broken")) for _ in range(2)]
        assert told == ["SETTLED", "SETTLED"]
        assert (await path(conn, job.job_id)).count("FAILED:HANDLER_FAILED") == 1


async def test_a_late_report_is_refused_and_changes_nothing(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    await facade.submit()
    async with fake(facade) as worker:
        job = await started(worker)
        await expire_leases(conn)
        await becomes(conn, job, "FAILED")
        assert not await worker.done(job, b"late")
        assert (await path(conn, job.job_id))[-1] == "FAILED:LEASE_EXPIRED"


async def test_what_was_never_started_can_be_released_but_not_ended(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    await facade.submit()
    async with fake(facade) as worker:
        job = await one(worker)
        assert await worker.report(job, Completed(b"x")) == "NOT_STARTED"
        assert await status(conn, job.job_id) == "ASSIGNED"
        await worker.cut_stream()
        assert await worker.release(job) == 1
        assert (await path(conn, job.job_id))[-2:] == ["FAILED:RELEASED", "PENDING:RELEASED"]


async def test_a_job_whose_time_to_live_is_over_is_not_started(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    seconds = {"seconds": 60}
    await facade.submit(ttl=seconds)
    async with fake(facade) as worker:
        job = await one(worker)
        await end_ttl(conn)
        assert await worker.start(job) == ["EXPIRED"]
        assert (await path(conn, job.job_id))[-1] == "DEAD_LETTERED:TTL_EXPIRED"


async def test_a_lost_job_is_not_started_and_a_started_one_may_be_started_again(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    await facade.submit()
    async with fake(facade) as worker:
        job = await started(worker)
        assert await worker.start(job) == ["STARTED"]
        assert (await path(conn, job.job_id)).count("RUNNING:STARTED") == 1
        await expire_leases(conn)
        await becomes(conn, job, "FAILED")
        assert await worker.start(job) == ["LOST"]


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


async def test_a_heartbeat_renews_and_tells_what_is_lost(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    for _ in range(2):
        await facade.submit()
    async with fake(facade, concurrency=2) as worker:
        kept, gone = await worker.take(2)
        await worker.start(kept, gone)
        await conn.execute(
            "UPDATE jobqueue.leases SET expires_at = now() - interval '1 s' WHERE id = $1",
            gone.lease.job,
        )
        await becomes(conn, gone, "FAILED")
        answer = await worker.heartbeat(kept, gone)
        assert list(answer.renewed) == [str(kept.lease)]
        assert list(answer.lost) == [str(gone.lease)]


async def test_a_worker_that_goes_silent_loses_its_job_and_nothing_else(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    await facade.submit()
    async with fake(facade) as worker:
        await worker.keep_alive()
        job = await started(worker)
        row = await row_of(conn, "leases", job.job_id)
        assert row is not None

        async def outlived() -> bool:
            return bool(await conn.fetchval("SELECT now() > $1", row["expires_at"]))

        await eventually(outlived, what="the end of the first lease")
        assert await status(conn, job.job_id) == "RUNNING"
        await worker.go_silent()
        await becomes(conn, job, "FAILED")
        assert (await path(conn, job.job_id))[-1] == "FAILED:LEASE_EXPIRED"


async def test_a_cancel_is_told_to_a_heartbeat_that_only_watches(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    job_id = await facade.submit()
    async with fake(facade) as worker:
        job = await started(worker)
        await facade.jobs.CancelJob(jobs_pb.CancelJobRequest(job_id=job_id, running=True))
        assert list((await worker.heartbeat(watched=[job])).cancelled) == [str(job.lease)]
        assert await worker.report(job, Cancelled("as asked")) == "SETTLED"
        assert await status(conn, job.job_id) == "DEAD_LETTERED"


async def test_an_operators_words_reach_a_heartbeat(facade: Facade) -> None:
    async with fake(facade) as worker:
        assert await worker.hears() is WorkerCommand.NONE
        await facade.admin.DrainWorker(admin_pb.DrainWorkerRequest(worker_id="w-1"))
        assert await worker.hears() is WorkerCommand.DRAIN
        await facade.admin.ShutdownWorker(admin_pb.ShutdownWorkerRequest(worker_id="w-1"))
        assert await worker.hears() is WorkerCommand.SHUTDOWN


async def test_progress_is_shown_while_the_job_runs_and_gone_after_it(facade: Facade) -> None:
    job_id = await facade.submit()
    async with fake(facade) as worker:
        job = await one(worker)
        assert not await worker.progress(job, 10), "it was not started"
        await worker.start(job)
        assert await worker.progress(job, 40, "resizing")
        found = await facade.get(job_id)
        assert (found.progress_percent, found.progress_message) == (40, "resizing")
        await worker.done(job)
        assert not (await facade.get(job_id)).HasField("progress_message")


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


async def test_a_hint_brings_a_new_job_to_an_idle_worker(facade: Facade) -> None:
    async with fake(facade) as worker:
        assert await worker.nothing_within(1.0)
        job_id = await facade.submit()
        assert str((await one(worker)).job_id) == job_id


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"worker_id": "a/b"}, "worker_id"),
        ({"queues": ()}, "queues"),
        ({"queues": ("a b",)}, "queues[0]"),
        ({"types": ("ok", "")}, "types[1]"),
        ({"concurrency": 0}, "concurrency"),
        ({"prefetch": 10_001}, "prefetch"),
    ],
)
async def test_a_worker_that_says_what_cannot_be_is_refused(
    facade: Facade, facts: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        async with fake(facade, **facts):
            pytest.fail("it was registered")
    assert [violation.field for violation in caught.value.violations] == [field]


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
            "AND pid <> pg_backend_pid()"
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
