"""Servers and databases that fail under a whole system, and what callers and jobs see of it."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import grpc
import pytest

from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as jobs_pb
from jobqueue.v1 import job_service_pb2_grpc as jobs_grpc
from tests.support.facade import Facade, serving
from tests.support.fleet import ENDED, NOT_DONE_ONCE
from tests.support.postgres import Cluster, database_of
from tests.support.programs import ServerProgram, WorkerProgram
from tests.support.soundness import assert_sound
from tests.support.store import add_queue, cut, status, submit
from tests.support.waiting import eventually

BATCH, CUTS = 10_000, 10
STORED = "SELECT count(*) FROM jobqueue.jobs"
HALF_WAY = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE '%submit_jobs%' AND wait_event_type = 'Lock'
"""
WAITS_FOR_A_ROW = """
    SELECT count(*) > 0 FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'jq-worker'
      AND wait_event_type = 'Lock'
"""
IN_ORDER = """
    SELECT count(*) FROM unnest($1::uuid[], $2::bytea[]) AS asked (job_id, payload)
    JOIN jobqueue.jobs USING (job_id, payload)
"""
TIMES = {
    "lease_duration_s": 3,
    "lease_renew_interval_s": 0.6,
    "worker_heartbeat_interval_s": 0.5,
    "reaper_interval_ms": 100,
    "scheduler_interval_ms": 100,
}


@asynccontextmanager
async def caller(server: ServerProgram) -> AsyncIterator["jobs_grpc.JobServiceAsyncStub"]:
    await asyncio.to_thread(server.ready)
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield jobs_grpc.JobServiceStub(channel)


async def submitted(
    jobs: "jobs_grpc.JobServiceAsyncStub", request: jobs_pb.SubmitJobsRequest
) -> jobs_pb.SubmitJobsResponse:
    return await jobs.SubmitJobs(request)


async def dies_with(
    server: ServerProgram, call: "asyncio.Task[jobs_pb.SubmitJobsResponse]"
) -> None:
    """See a server killed, and its caller told that nothing is known."""
    assert await asyncio.to_thread(server.ended) == -signal.SIGKILL
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_batch_whose_server_is_killed_is_stored_whole_or_not_at_all_and_may_be_repeated(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    payloads = [str(number).encode() for number in range(BATCH)]
    specs = [job_pb2.JobSpec(queue="default", payload=payload) for payload in payloads]
    request = jobs_pb.SubmitJobsRequest(jobs=specs, request_id="one-batch-of-10000")
    servers = [
        ServerProgram(database, tmp_path),
        ServerProgram(database, tmp_path, seams="submit_jobs.after=kill"),
        ServerProgram(database, tmp_path),
    ]
    try:
        async with caller(servers[0]) as jobs:
            blocker = await asyncpg.connect(database)
            async with blocker.transaction():
                await blocker.execute("LOCK TABLE jobqueue.ready IN SHARE MODE")
                calling = asyncio.create_task(submitted(jobs, request))
                await eventually(lambda: conn.fetchval(HALF_WAY), what="a batch half-way")
                servers[0].send(signal.SIGKILL)
                await dies_with(servers[0], calling)
                assert await cut(conn, "jq-server") > 0, "as when its machine is gone"
            await blocker.close()
        assert await conn.fetchval(STORED) == 0
        async with caller(servers[1]) as jobs:
            await dies_with(servers[1], asyncio.create_task(submitted(jobs, request)))
        assert await conn.fetchval(STORED) == BATCH, "it was committed, and nobody was told"
        async with caller(servers[2]) as jobs:
            ids = list((await jobs.SubmitJobs(request)).job_ids)
        assert await conn.fetchval(STORED) == BATCH
        assert await conn.fetchval(IN_ORDER, ids, payloads) == BATCH
    finally:
        for server in servers:
            server.kill()
    await assert_sound(conn)


@asynccontextmanager
async def working(database: str, folder: Path, *flags: str) -> AsyncIterator[Facade]:
    """Run a server and a worker with short leases."""
    folder.mkdir()
    settings = {key.replace("_", "__", 1): value for key, value in TIMES.items()}
    async with serving(database, **settings) as server:
        worker = WorkerProgram(database, folder, *flags, **TIMES)
        try:
            await asyncio.to_thread(worker.ready)
            yield server
            assert worker.process.poll() is None, "it lives on"
        finally:
            worker.kill()


async def test_a_keeper_that_is_cut_off_again_and_again_costs_no_job_its_only_outcome(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    jobs, cuts = 200, 0
    flags = ("--handlers", "tests.support.fleet_handlers", "--concurrency", str(jobs))
    async with working(database, tmp_path / "logs", *flags):
        gate = tmp_path / "gate"
        payload = str(gate).encode()
        await submit(conn, jobs, queue="default", type="gated", payload=payload, max_retries=100)
        running = "SELECT count(*) FROM jobqueue.leases WHERE running"
        await eventually(lambda: conn.fetchval(running), what="jobs at work")
        while cuts < CUTS:
            cuts += await cut(conn, "jq-keeper")
            await asyncio.sleep(0.3)  # the interval is the fault
        gate.touch()

        async def all_ended() -> bool:
            return bool(await conn.fetchval(ENDED) == jobs)

        await eventually(all_ended, within_s=120, what="all jobs ended")
    assert await conn.fetch(NOT_DONE_ONCE) == []
    await assert_sound(conn)


async def test_a_failover_that_leaves_connections_at_a_standby_is_survived(
    pg: Cluster, database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    change = f'ALTER DATABASE "{database_of(database)}"'
    async with working(database, tmp_path / "logs") as server:
        await server.becomes(await server.submit(type="echo"), "DONE")
        # Sessions that begin now refuse every write for as long as they last.
        await pg.admin.execute(f"{change} SET default_transaction_read_only = on")
        for name in ("jq-server", "jq-worker", "jq-settler", "jq-keeper"):
            assert await cut(conn, name) > 0

        async def refused() -> bool:
            try:
                await server.submit(type="echo")
            except grpc.aio.AioRpcError as error:
                return error.code() is grpc.StatusCode.UNAVAILABLE
            return False

        await eventually(refused, what="a refusal")
        await pg.admin.execute(f"{change} RESET default_transaction_read_only")

        async def accepted() -> str:
            try:
                return await server.submit(type="echo")
            except grpc.aio.AioRpcError:
                return ""

        await server.becomes(await eventually(accepted, what="a submission"), "DONE")


async def test_a_queue_deleted_under_a_worker_takes_its_jobs_along_and_nothing_else(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    flags = ("--queues", "doomed,default", "--concurrency", "10")
    async with working(database, tmp_path / "logs", *flags) as server:
        doomed = admin_pb.CreateQueueRequest(name="doomed")
        await server.admin.CreateQueue(doomed)
        ids = [await server.submit("doomed", type="async-sleeps") for _ in range(100)]
        ids += [await server.submit("doomed", delay={"seconds": 3600}) for _ in range(5)]
        running = "SELECT count(*) = 10 FROM jobqueue.leases WHERE running"
        await eventually(lambda: conn.fetchval(running), what="ten running jobs")
        await server.admin.DeleteQueue(admin_pb.DeleteQueueRequest(name="doomed", force=True))
        for job_id in ids:
            assert (await server.becomes(job_id, "DEAD_LETTERED")).reason == "CANCELLED"
        await server.admin.CreateQueue(doomed)
        await server.becomes(await server.submit("doomed", type="echo"), "DONE", within_s=60)
        await server.becomes(await server.submit(type="echo"), "DONE")
    await assert_sound(conn)


async def test_a_worker_that_stands_still_in_a_transaction_holds_up_no_other(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    await add_queue(conn, max_running=1)
    (job_id,) = await submit(conn, type="echo")
    still = WorkerProgram(database, tmp_path, "--queues", "q", seams="lock_queue.open=stop")
    programs = [still]
    try:
        await eventually(still.stands_still, within_s=60, what="a worker that stands still")
        assert still.says("a seam gives")
        programs.append(other := WorkerProgram(database, tmp_path, "--queues", "q"))
        await eventually(lambda: conn.fetchval(WAITS_FOR_A_ROW), within_s=60, what="a claim behind")

        async def done() -> bool:
            return await status(conn, job_id) == "DONE"

        await eventually(done, within_s=60, what="the end of a job of the other's")
        assert await still.stands_still()
        other.kill()
        still.send(signal.SIGCONT)
        (job_id,) = await submit(conn, type="echo")
        await eventually(done, within_s=60, what="the end of a job of its own")
    finally:
        for program in programs:
            program.kill()
    await assert_sound(conn)
