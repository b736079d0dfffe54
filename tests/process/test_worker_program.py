"""`jq-worker` as people run it: real programs, real signals, real PostgreSQL, a real server."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from google.protobuf.field_mask_pb2 import FieldMask

from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as jobs_pb
from jobqueue.worker.claiming import WAVES_FROM
from tests.support.facade import Facade, serving
from tests.support.programs import WorkerProgram
from tests.support.store import cut, waits
from tests.support.waiting import eventually
from tests.unit.worker.test_handlers import appears, dead, pid_in

TAKEN_BACK = "a handler took a signal that ends the worker; it is taken back"

Start = Callable[..., WorkerProgram]

FAST = {
    "lease_duration_s": 30,
    "lease_renew_interval_s": 0.5,
    "worker_heartbeat_interval_s": 0.5,
    "worker_kill_grace_s": 0.5,
}


CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database()
      AND application_name IN ('jq-worker', 'jq-settler', 'jq-keeper')
"""

MOST_HELD = """
    SELECT max(held) FROM (
        SELECT sum(CASE WHEN reason = 'CLAIMED' THEN 1 WHEN from_status = 'RUNNING' THEN -1
                        ELSE 0 END)
                   OVER (ORDER BY eid) AS held
        FROM jobqueue.job_events) e
"""
"""In the order in which one worker's statements wrote their events."""
ENDED = "SELECT count(DISTINCT job) FROM jobqueue.job_events WHERE from_status = 'RUNNING'"


@pytest_asyncio.fixture
async def server(database: str) -> AsyncIterator[Facade]:
    async with serving(database, reaper__interval_ms=100, scheduler__interval_ms=100) as facade:
        yield facade


@pytest.fixture
def start(database: str, tmp_path: Path) -> Iterator[Start]:
    folder = tmp_path / "logs"
    folder.mkdir()
    made: list[WorkerProgram] = []

    def start(*flags: str, **settings: object) -> WorkerProgram:
        made.append(WorkerProgram(database, folder, *flags, **{**FAST, **settings}))
        return made[-1]

    yield start
    for worker in made:
        worker.kill()


async def exits(worker: WorkerProgram) -> int:
    return await asyncio.to_thread(worker.ended)


async def ready(worker: WorkerProgram, count: int = 1) -> WorkerProgram:
    return await asyncio.to_thread(worker.ready, count)


async def workers(server: Facade) -> list[str]:
    answer = await server.admin.ListWorkers(admin_pb.ListWorkersRequest())
    return [worker.worker_id for worker in answer.workers]


async def retries_take_long(server: Facade) -> None:
    """Let a failed job stay FAILED however slow the machine is."""
    policy = admin_pb.QueuePolicy()
    policy.base_delay.FromSeconds(3600)
    policy.max_delay.FromSeconds(3600)
    mask = FieldMask(paths=["base_delay", "max_delay"])
    change = admin_pb.UpdateQueueRequest(name="default", policy=policy, update_mask=mask)
    await server.admin.UpdateQueue(change)


async def test_jobs_of_every_kind_run(server: Facade, start: Start) -> None:
    worker = await ready(start())
    kinds = {"echo": b"x", "async-returns": b"none", "thread": b"", "shell": b'{"command":"pwd"}'}
    ids = {kind: await server.submit(type=kind, payload=p) for kind, p in kinds.items()}
    for job_id in ids.values():
        await server.becomes(job_id, "DONE")
    assert (await server.get(ids["echo"])).result == b"x"
    failed = await server.submit(type="segfaults", max_retries=0)
    job = await server.becomes(failed, "DEAD_LETTERED")
    assert job.last_error == "handler process died with signal SIGSEGV"
    assert worker.process.poll() is None


async def test_a_worker_holds_at_most_three_connections(
    server: Facade, start: Start, conn: asyncpg.Connection
) -> None:
    await ready(start("--concurrency", "8"))
    ids = [await server.submit(type="echo") for _ in range(20)]
    for job_id in ids:
        await server.becomes(job_id, "DONE")
    assert await conn.fetchval(CONNECTIONS) == 3


@pytest.mark.parametrize("slots", [8, WAVES_FROM])
async def test_the_database_never_sees_more_leases_of_a_worker_than_it_has_slots(
    server: Facade, start: Start, database: str, conn: asyncpg.Connection, slots: int
) -> None:
    kinds = (("async-returns", b"none"), ("async-raises", b"value"), ("async-raises", b"later"))
    jobs = WAVES_FROM * kinds
    await asyncio.gather(*(server.submit(type=t, payload=p, max_retries=0) for t, p in jobs))
    blocker = await asyncpg.connect(database)
    async with blocker.transaction():
        await blocker.execute("LOCK TABLE jobqueue.finished IN SHARE MODE")
        start("--concurrency", str(slots))
        await eventually(lambda: waits(conn, "jq-settler"), what="a settle waits")
        assert await cut(conn, "jq-settler") == 1
    await blocker.close()

    async def look() -> bool:
        return bool(await conn.fetchval(ENDED) == len(jobs))

    await eventually(look, what="all have ended")
    assert slots / 2 <= await conn.fetchval(MOST_HELD) <= slots


async def test_sigterm_lets_running_jobs_finish_gives_back_the_rest_and_exits_0(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "go"
    command = f"echo $$ > {tmp_path}/pid; while [ ! -e {path} ]; do sleep 0.05; done; echo done"
    worker = await ready(start("--concurrency", "1", "--prefetch", "1"))
    running = await server.submit(type="shell", payload=json.dumps({"command": command}).encode())
    await appears(tmp_path / "pid")
    waiting = await server.submit(type="echo")
    await server.becomes(waiting, "ASSIGNED")
    worker.send(signal.SIGTERM)
    await server.becomes(waiting, "PENDING")
    path.touch()
    assert await exits(worker) == 0, worker.text()
    assert (await server.becomes(running, "DONE")).result == b"done\n"
    assert await workers(server) == []


async def test_the_end_of_the_grace_releases_what_runs_uncharged(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    worker = await ready(start(worker_shutdown_grace_period_s=0.5))
    job_id = await server.submit(type="ignores-term", payload=str(tmp_path / "pid").encode())
    pid = await appears(tmp_path / "pid")
    worker.send(signal.SIGTERM)
    assert await exits(worker) == 0, worker.text()
    job = await server.becomes(job_id, "PENDING")
    assert (job.retry_count, dead(pid)) == (0, True)


async def test_the_end_of_the_grace_cancels_tasks_and_still_gives_their_jobs_back(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    notes = [tmp_path / f"note-{number}" for number in range(4)]
    worker = await ready(start("--concurrency", "4", worker_shutdown_grace_period_s=0.5))
    ids = [await server.submit(type="async-sleeps", payload=str(note).encode()) for note in notes]
    for job_id in ids:
        await server.becomes(job_id, "RUNNING")
    worker.send(signal.SIGTERM)
    assert await exits(worker) == 0, worker.text()
    assert [note.read_text() for note in notes] == ["True"] * 4, "each was cancelled"
    for job_id in ids:
        job = await server.get(job_id)
        assert (job_pb2.JobStatus.Name(job.status), job.reason, job.retry_count) == (
            "JOB_STATUS_PENDING",
            "RELEASED",
            0,
        )


async def test_a_second_signal_releases_fast_and_exits_non_zero(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    worker = await ready(start(worker_kill_grace_s=60))
    job_id = await server.submit(type="ignores-term", payload=str(tmp_path / "pid").encode())
    await appears(tmp_path / "pid")
    worker.send(signal.SIGTERM)

    async def stopping() -> bool:
        return '"stopping"' in worker.text()

    await eventually(stopping, what="the first signal's effect")
    worker.send(signal.SIGINT)
    assert await exits(worker) == 1
    await server.becomes(job_id, "PENDING")


async def test_a_worker_whose_handler_took_its_signals_ends_by_them_all_the_same(
    server: Facade, start: Start
) -> None:
    worker = await ready(start())
    await server.becomes(await server.submit(type="async-takes-signals"), "DONE")

    async def taken_back() -> bool:
        return worker.says(TAKEN_BACK)

    await eventually(taken_back, what="the worker takes them back")
    worker.send(signal.SIGTERM)
    assert await exits(worker) == 0


async def test_a_signal_during_start_up_ends_it_quietly(start: Start, database: str) -> None:
    worker = start()
    worker.send(signal.SIGTERM)
    # Before Python installs the first handler the default action ends it; nothing is held then.
    assert await exits(worker) in {0, -signal.SIGTERM}


async def test_a_killed_workers_job_runs_again_and_its_first_attempt_is_dead(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    command = f"[ -e {path} ] && exit 0; trap '' TERM; echo $$ > {path}; sleep 60; exit 1"
    await retries_take_long(server)
    await server.admin.CreateQueue(admin_pb.CreateQueueRequest(name="usual"))
    worker = await ready(start("--queues", "default,usual", lease_duration_s=6))
    job_id = await server.submit(type="shell", payload=json.dumps({"command": command}).encode())
    await appears(path)
    other = await server.submit("usual", type="echo")
    await server.becomes(other, "DONE")  # so its loop went on, and its guard knows the program
    worker.send(signal.SIGKILL)
    await exits(worker)

    async def orphan_is_dead() -> bool:
        return dead(pid_in(path))

    await eventually(orphan_is_dead, what="the end of the orphan")
    await ready(start())
    job = await server.becomes(job_id, "FAILED")
    assert job.retry_count == 1
    await server.jobs.RetryJob(jobs_pb.RetryJobRequest(job_id=job_id))
    await server.becomes(job_id, "DONE")


async def test_a_running_job_can_be_cancelled(server: Facade, start: Start, tmp_path: Path) -> None:
    await ready(start())
    job_id = await server.submit(type="leaves-grandchild", payload=str(tmp_path / "pid").encode())
    pid = await appears(tmp_path / "pid")
    await server.jobs.CancelJob(jobs_pb.CancelJobRequest(job_id=job_id, running=True))
    job = await server.becomes(job_id, "DEAD_LETTERED")
    assert job.reason == "CANCELLED"
    assert dead(pid)


async def test_a_job_can_be_cancelled_while_its_worker_ends_and_hears_no_hints(
    server: Facade, start: Start, tmp_path: Path, conn: asyncpg.Connection
) -> None:
    worker = await ready(start(worker_shutdown_grace_period_s=60))
    job_id = await server.submit(type="ignores-term", payload=str(tmp_path / "pid").encode())
    pid = await appears(tmp_path / "pid")
    worker.send(signal.SIGTERM)

    async def stopping() -> bool:
        return '"stopping"' in worker.text()

    await eventually(stopping, what="the first signal's effect")
    assert await cut(conn, "jq-worker") == 1, "the connection that listens"
    await server.jobs.CancelJob(jobs_pb.CancelJobRequest(job_id=job_id, running=True))
    assert await exits(worker) == 0, worker.text()
    job = await server.get(job_id)
    assert (job.reason, job.HasField("finished_at"), dead(pid)) == ("CANCELLED", True, True)


async def test_an_operator_drains_and_then_shuts_down_a_worker(
    server: Facade, start: Start
) -> None:
    worker = await ready(start("--worker-id", "w-1"))
    await server.admin.DrainWorker(admin_pb.DrainWorkerRequest(worker_id="w-1"))

    async def draining() -> bool:
        answer = await server.admin.ListWorkers(admin_pb.ListWorkersRequest())
        return [w.status for w in answer.workers] == [admin_pb.Worker.STATUS_DRAINING]

    await eventually(draining, what="DRAINING")
    assert worker.process.poll() is None
    await server.admin.ShutdownWorker(admin_pb.ShutdownWorkerRequest(worker_id="w-1"))
    assert await exits(worker) == 0
    assert await workers(server) == []


async def test_a_family_of_workers_starts_runs_and_ends_together(
    server: Facade, start: Start
) -> None:
    family = await ready(start("--processes", "2"), count=2)
    assert len(set(await workers(server))) == 2
    ids = [await server.submit(type="echo") for _ in range(20)]
    for job_id in ids:
        await server.becomes(job_id, "DONE")
    family.send(signal.SIGINT)
    assert await exits(family) == 0, family.text()
    assert await workers(server) == []


async def test_the_workers_of_a_killed_parent_end_by_themselves(
    server: Facade, start: Start
) -> None:
    family = await ready(start("--processes", "2", "--worker-id", "fam"), count=2)
    assert sorted(await workers(server)) == ["fam-1", "fam-2"]
    family.send(signal.SIGKILL)

    async def gone() -> bool:
        return await workers(server) == []

    await eventually(gone, what="the end of the family")


async def test_a_database_restart_is_survived(
    server: Facade, start: Start, conn: asyncpg.Connection
) -> None:
    await ready(start())
    first = await server.submit(type="echo")
    await server.becomes(first, "DONE")
    await conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    async def submitted() -> str | None:
        try:
            return await server.submit(type="echo")
        except Exception:  # noqa: BLE001 - the server's own connections were cut too
            return None

    second = await eventually(submitted, what="a submission")
    assert second is not None
    await server.becomes(second, "DONE")
