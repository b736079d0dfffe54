"""`jq-worker` without a database: real programs, one server, the same promises."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
import psutil
import pytest
import pytest_asyncio

from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_service_pb2 as jobs_pb
from tests.support.facade import Facade, serving
from tests.support.family import children_with
from tests.support.programs import RemoteWorkerProgram
from tests.support.soundness import assert_sound
from tests.support.store import forget_workers, path
from tests.support.waiting import eventually
from tests.unit.worker.test_handlers import appears, dead

Start = Callable[..., RemoteWorkerProgram]

TIMES = {
    "lease__renew_interval_s": 0.5,
    "worker__heartbeat_interval_s": 0.5,
    "reaper__interval_ms": 100,
    "scheduler__interval_ms": 100,
    "scheduler__assignment_timeout_s": 10,
}
EXPIRY = "SELECT expires_at FROM jobqueue.leases"
HELD = """
    SELECT extract(epoch FROM lead(at) OVER (ORDER BY seq) - at)::float
    FROM jobqueue.job_event_log WHERE job_id = $1 ORDER BY to_status <> 'ASSIGNED', seq LIMIT 1
"""
CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database()
      AND application_name IN ('jq-worker', 'jq-settler', 'jq-keeper')
"""


@pytest.fixture
def lease_s() -> int:
    return 30


@pytest_asyncio.fixture
async def server(database: str, conn: asyncpg.Connection, lease_s: int) -> AsyncIterator[Facade]:
    async with serving(database, lease__duration_s=lease_s, **TIMES) as facade:
        yield facade
    await assert_sound(conn)


@pytest.fixture
def start(server: Facade, tmp_path: Path) -> Iterator[Start]:
    folder = tmp_path / "logs"
    folder.mkdir()
    made: list[RemoteWorkerProgram] = []

    def start(*flags: str, **settings: object) -> RemoteWorkerProgram:
        address = f"127.0.0.1:{server.port}"
        settings = {"worker_kill_grace_s": 0.5, **settings}
        made.append(RemoteWorkerProgram(address, folder, *flags, **settings))
        return made[-1]

    yield start
    for worker in made:
        worker.kill()


async def ready(worker: RemoteWorkerProgram, count: int = 1) -> RemoteWorkerProgram:
    return await asyncio.to_thread(worker.ready, count)


async def exits(worker: RemoteWorkerProgram) -> int:
    return await asyncio.to_thread(worker.ended)


async def test_jobs_of_every_kind_run_without_a_database_connection(
    server: Facade, start: Start, conn: asyncpg.Connection
) -> None:
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
    assert await conn.fetchval(CONNECTIONS) == 0
    assert [w.mode for w in await server.workers()] == ["remote"]


async def test_programs_that_handlers_start_on_the_workers_loop_survive_grpc(
    server: Facade, start: Start
) -> None:
    await ready(start("--concurrency", "10"))
    ids = [await server.submit(type="async-starts", payload=b"25") for _ in range(10)]
    for job_id in ids:
        await server.becomes(job_id, "DONE")
    assert {(await server.get(job_id)).result for job_id in ids} == {b"[0]"}


async def test_prefetched_jobs_wait_assigned_and_no_more_run_than_may(
    server: Facade, start: Start, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    command = f"while [ ! -e {go} ]; do sleep 0.05; done"
    payload = json.dumps({"command": command}).encode()
    await ready(start("--concurrency", "2", "--prefetch", "3"))
    ids = [await server.submit(type="shell", payload=payload) for _ in range(8)]

    async def full() -> bool:
        found = await conn.fetch("SELECT status, count(*) AS n FROM jobqueue.job_status GROUP BY 1")
        return {r["status"]: r["n"] for r in found} == {"RUNNING": 2, "ASSIGNED": 3, "PENDING": 3}

    await eventually(full, within_s=30, what="a worker that is full")
    go.touch()
    for job_id in ids:
        await server.becomes(job_id, "DONE")


@pytest.mark.parametrize("own_timeout_s", [3600, 0.2])
async def test_a_prefetched_job_goes_back_before_the_server_would_charge_for_it(
    server: Facade, start: Start, conn: asyncpg.Connection, tmp_path: Path, own_timeout_s: float
) -> None:
    go = tmp_path / "go"
    command = f"while [ ! -e {go} ]; do sleep 0.05; done"
    # Its own setting would keep the job for longer than this server allows, or for no time.
    flags = ("--concurrency", "1", "--prefetch", "1")
    await ready(start(*flags, scheduler_assignment_timeout_s=own_timeout_s))
    await server.submit(type="shell", payload=json.dumps({"command": command}).encode())
    waiting = await server.submit(type="echo")
    await server.becomes(waiting, "ASSIGNED")

    async def back() -> bool:
        return "FAILED:RELEASED" in await path(conn, UUID(waiting))

    await eventually(back, within_s=30, what="the job's return")
    held_s = await conn.fetchval(HELD, UUID(waiting))
    assert held_s >= TIMES["scheduler__assignment_timeout_s"] / 2
    go.touch()
    job = await server.becomes(waiting, "DONE")
    assert (job.attempt, job.retry_count) == (1, 0)


async def test_sigterm_lets_running_jobs_finish_gives_back_the_rest_and_exits_0(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    command = f"echo $$ > {tmp_path}/pid; while [ ! -e {go} ]; do sleep 0.05; done; echo done"
    worker = await ready(start("--concurrency", "1", "--prefetch", "1"))
    running = await server.submit(type="shell", payload=json.dumps({"command": command}).encode())
    await appears(tmp_path / "pid")
    waiting = await server.submit(type="echo")
    await server.becomes(waiting, "ASSIGNED")
    worker.send(signal.SIGTERM)
    job = await server.becomes(waiting, "PENDING")
    assert (job.reason, job.retry_count) == ("RELEASED", 0)
    go.touch()
    assert await exits(worker) == 0, worker.text()
    assert (await server.becomes(running, "DONE")).result == b"done\n"
    assert await server.workers() == []


async def test_a_running_job_can_be_cancelled(server: Facade, start: Start, tmp_path: Path) -> None:
    await ready(start())
    job_id = await server.submit(type="leaves-grandchild", payload=str(tmp_path / "pid").encode())
    pid = await appears(tmp_path / "pid")
    await server.jobs.CancelJob(jobs_pb.CancelJobRequest(job_id=job_id, running=True))
    assert (await server.becomes(job_id, "DEAD_LETTERED")).reason == "CANCELLED"
    assert dead(pid)


async def test_a_job_that_takes_too_long_times_out(server: Facade, start: Start) -> None:
    await ready(start())
    payload = b'{"command":"sleep 60"}'
    job_id = await server.submit(
        type="shell", payload=payload, run_timeout={"nanos": 300_000_000}, max_retries=0
    )
    job = await server.becomes(job_id, "DEAD_LETTERED")
    assert job.last_error == "timed out after 0.3 s"


async def test_an_operator_drains_and_then_shuts_down_a_worker(
    server: Facade, start: Start
) -> None:
    worker = await ready(start("--worker-id", "w-1"))
    await server.admin.DrainWorker(admin_pb.DrainWorkerRequest(worker_id="w-1"))

    async def draining() -> bool:
        return '"draining"' in worker.text()

    await eventually(draining, what="the word of the operator")
    job_id = await server.submit(type="echo")
    await server.admin.ShutdownWorker(admin_pb.ShutdownWorkerRequest(worker_id="w-1"))
    assert await exits(worker) == 0, worker.text()
    assert (await server.get(job_id)).attempt == 0


async def test_a_worker_whose_registration_was_lost_ends_and_another_one_does_the_job(
    server: Facade, start: Start, conn: asyncpg.Connection
) -> None:
    worker = await ready(start("--worker-id", "w-1"))
    await forget_workers(conn)
    assert await exits(worker) == 1, worker.text()
    (told,) = (line for line in worker.lines() if line["message"] == "forgotten")
    assert told["level"] == "error"
    assert await server.workers() == []
    job_id = await server.submit(type="echo")
    await ready(start("--worker-id", "w-1"))
    await server.becomes(job_id, "DONE")


async def test_several_processes_are_as_many_workers(server: Facade, start: Start) -> None:
    worker = await ready(start("--processes", "2", "--worker-id", "w"), count=2)
    assert sorted(w.worker_id for w in await server.workers()) == ["w-1", "w-2"]
    await server.becomes(await server.submit(type="echo"), "DONE")
    worker.send(signal.SIGTERM)
    assert await exits(worker) == 0, worker.text()


async def test_a_keeper_that_is_killed_is_replaced_and_costs_no_lease(
    server: Facade, start: Start, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    command = f"while [ ! -e {go} ]; do sleep 0.05; done"
    worker = await ready(start())
    job_id = await server.submit(type="shell", payload=json.dumps({"command": command}).encode())
    await server.becomes(job_id, "RUNNING")
    (keeper,) = keepers(worker)
    keeper.kill()
    keeper.wait(20)

    first = await conn.fetchval(EXPIRY)

    async def renewed() -> bool:  # more than once: the first may have been on its way
        return bool(await conn.fetchval(EXPIRY) > first + timedelta(seconds=1))

    await eventually(renewed, what="renewals by another keeper")
    go.touch()
    assert (await server.becomes(job_id, "DONE")).attempt == 1
    assert [each.pid for each in keepers(worker)] != [keeper.pid]


def keepers(worker: RemoteWorkerProgram) -> list[psutil.Process]:
    return children_with(worker.process.pid, "jobqueue.remote.keeper_process")


@pytest.mark.parametrize("lease_s", [6])
async def test_a_killed_workers_job_is_taken_back_when_its_lease_runs_out(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    worker = await ready(start())
    job_id = await server.submit(type="ignores-term", payload=str(tmp_path / "pid").encode())
    await appears(tmp_path / "pid")
    worker.send(signal.SIGKILL)
    await exits(worker)
    job = await server.becomes(job_id, "FAILED")
    assert (job.reason, job.retry_count) == ("LEASE_EXPIRED", 1)
