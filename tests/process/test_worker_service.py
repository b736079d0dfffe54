"""WorkerService over the wire, by scripted workers: what it gives, refuses and takes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

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
from jobqueue.errors import InvalidArgument
from jobqueue.runtime.service import TURN_ENDED
from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_service_pb2 as jobs_pb
from tests.support.facade import Facade, serving
from tests.support.remote import TIMES, becomes, fake, one, started
from tests.support.soundness import assert_sound
from tests.support.store import end_ttl, expire_leases, path, row_of, status
from tests.support.waiting import eventually

POOL = 3
STUCK = f"SELECT count(DISTINCT pid) >= {POOL} FROM pg_locks WHERE NOT granted"
NEARLY_OVER = "UPDATE jobqueue.leases SET expires_at = clock_timestamp() + interval '2 s'"


@asynccontextmanager
async def serving_with_a_small_pool(database: str) -> AsyncIterator[Facade]:
    """Serve with as few connections as may be, once the first upkeep has given two back."""
    turns: list[str] = []
    stop = TURN_ENDED.subscribe(lambda turn: turns.append(turn.service))

    async def kept_up() -> bool:
        return "upkeep-events" in turns

    async with serving(database, db__pool_size=POOL, **TIMES) as facade:
        await eventually(kept_up, what="the first upkeep of events")
        stop()
        yield facade


@pytest_asyncio.fixture
async def facade(database: str, conn: asyncpg.Connection) -> AsyncIterator[Facade]:
    async with serving(database, **TIMES) as facade:
        yield facade
    await assert_sound(conn)


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


async def test_leases_are_renewed_while_callers_that_wait_hold_the_whole_pool(
    database: str, conn: asyncpg.Connection
) -> None:
    async with serving_with_a_small_pool(database) as facade:
        await facade.submit()
        async with fake(facade) as worker:
            job = await started(worker)
            async with conn.transaction():
                await conn.execute("SELECT FROM jobqueue.queues WHERE name = 'default' FOR UPDATE")
                pause = admin_pb.PauseQueueRequest(name="default")
                calls = [facade.admin.PauseQueue(pause) for _ in range(2 * POOL)]
                await eventually(lambda: conn.fetchval(STUCK), what="a pool in use")
                for _ in range(3):
                    assert list((await worker.heartbeat(job)).renewed) == [str(job.lease)]
                assert await conn.fetchval(STUCK)
            await asyncio.gather(*calls)
            assert await worker.done(job)
    await assert_sound(conn)


async def test_a_worker_that_goes_silent_loses_its_job_and_nothing_else(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    await facade.submit()
    async with fake(facade) as worker:
        await worker.keep_alive()
        job = await started(worker)
        row = await row_of(conn, "leases", job.job_id)
        assert row is not None

        async def renewed() -> bool:
            later = "SELECT expires_at > $1 FROM jobqueue.leases"
            return bool(await conn.fetchval(later, row["expires_at"]))

        await eventually(renewed, what="a renewal")
        await worker.go_silent()
        await conn.execute(NEARLY_OVER)
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
