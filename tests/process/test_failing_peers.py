"""Servers and databases that fail under a whole system, and what callers and jobs see of it."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from uuid import UUID

import asyncpg
import grpc
import pytest

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as jobs_pb
from jobqueue.v1 import job_service_pb2_grpc as jobs_grpc
from tests.support.facade import Facade, serving
from tests.support.fleet import ENDED, NOT_DONE_ONCE
from tests.support.kafka import Broker, Listener, running_broker
from tests.support.kafka_way import Way
from tests.support.postgres import Cluster, database_of
from tests.support.programs import ServerProgram, WorkerProgram
from tests.support.soundness import assert_sound
from tests.support.store import add_queue, claim, cut, path, status, submit
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
    "reaper_crash_limit": 1_000,
    "scheduler_interval_ms": 100,
}

LEASE_S, NOBODY, TOPIC = 6, 999, "jobqueue.events"
STEPS = "jobs", "leases", "finished"
"""Where a row comes with a submission, a claim and an outcome."""
FAIL_TWICE = """
    CREATE FUNCTION public.fail_twice() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        IF nextval(TG_ARGV[0]) <= 2 THEN
            RAISE EXCEPTION 'planted' USING ERRCODE = TG_ARGV[1];
        END IF;
        RETURN NEW;
    END $$;
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with running_broker() as broker, closing(Way(broker)) as way:
        way.open()
        broker.create_topic(TOPIC)
        yield broker


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


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_batch_whose_server_is_killed_is_stored_whole_or_not_at_all_and_may_be_repeated(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    payloads = [str(number).encode() for number in range(BATCH)]
    specs = [job_pb2.JobSpec(queue="default", payload=payload) for payload in payloads]
    request = jobs_pb.SubmitJobsRequest(jobs=specs, request_id="one-batch-of-10000")
    servers = [ServerProgram(database, tmp_path)]
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
        servers.append(ServerProgram(database, tmp_path, seams="submit_jobs.after=kill"))
        servers.append(ServerProgram(database, tmp_path))
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


def of_a_server(times: Mapping[str, object]) -> dict[str, object]:
    """Return settings of programs as ``serving`` takes them."""
    return {key.replace("_", "__", 1): value for key, value in times.items()}


@asynccontextmanager
async def working(
    database: str, folder: Path, *flags: str, lease_s: int = 3, **more: object
) -> AsyncIterator[Facade]:
    """Run a server and a worker with short leases; ``more`` are settings of the server."""
    folder.mkdir()
    times = TIMES | {"lease_duration_s": lease_s}
    async with serving(database, **of_a_server(times), **more) as server:
        worker = WorkerProgram(database, folder, *flags, **times)
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


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_failover_that_leaves_connections_at_a_standby_is_survived(
    pg: Cluster, database: str, conn: asyncpg.Connection, tmp_path: Path, broker: Broker
) -> None:
    change = f'ALTER DATABASE "{database_of(database)}"'
    logs, brokers = tmp_path / "logs", broker.address
    async with working(database, logs, lease_s=LEASE_S, kafka__brokers=brokers) as server:
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
        await everybody_writes_again(server, conn, broker)


async def everybody_writes_again(server: Facade, conn: asyncpg.Connection, broker: Broker) -> None:
    """See a keeper renew, the reaper take back, the scheduler promote and the relay publish."""
    await add_queue(conn, retry=RetryPolicy(base_delay_s=0.1))
    (left,) = await submit(conn)
    assert await claim(conn, worker=NOBODY, lease_s=0.5)
    command = json.dumps({"command": f"sleep {2 * LEASE_S + 1}"}).encode()
    long = await server.submit(type="shell", payload=command)
    assert (await server.becomes(long, "DONE", within_s=90)).attempt == 1

    async def promoted() -> bool:
        return (await path(conn, left))[-2:] == ["FAILED:LEASE_EXPIRED", "PENDING:RETRY_DUE"]

    await eventually(promoted, what="the retry of a job whose worker is gone")
    with closing(Listener(broker, TOPIC)) as listener:

        async def told() -> bool:
            await asyncio.to_thread(listener.listen)
            return (long, "COMPLETED") in {
                (e.job_id, e.reason) for e in listener.first_deliveries()
            }

        await eventually(told, what="the end of a job, in Kafka")


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


@pytest.mark.parametrize("code", ["40P01", "40001"])
async def test_a_step_that_fails_by_deadlock_or_serialization_is_tried_again_and_costs_nothing(
    database: str, conn: asyncpg.Connection, tmp_path: Path, code: str
) -> None:
    async with working(database, tmp_path / "logs", lease_s=LEASE_S) as server:
        await conn.execute(FAIL_TWICE)
        for step in STEPS:
            await conn.execute(
                f"CREATE SEQUENCE public.{step}; "
                f"CREATE TRIGGER planted BEFORE INSERT ON jobqueue.{step} FOR EACH ROW "
                f"EXECUTE FUNCTION public.fail_twice('public.{step}', '{code}')"
            )
        job = await server.becomes(await server.submit(type="echo"), "DONE")
        assert (job.attempt, job.retry_count) == (1, 0)
    for step in STEPS:
        assert await conn.fetchval(f"SELECT last_value FROM public.{step}") == 3, step
    await assert_sound(conn)


@pytest.mark.slow
async def test_a_job_of_a_dead_worker_is_handed_back_by_one_without_its_handler_and_not_failed(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    gate, able = tmp_path / "gate", ("--handlers", "tests.support.fleet_handlers")
    times = TIMES | {"lease_duration_s": LEASE_S}
    programs: list[WorkerProgram] = []

    def start(*flags: str) -> WorkerProgram:
        programs.append(WorkerProgram(database, logs, *flags, **times))
        return programs[-1]

    (logs := tmp_path / "logs").mkdir()
    async with serving(database, **of_a_server(times)) as server:
        try:
            first = start(*able)
            job_id = await server.submit(type="gated", payload=str(gate).encode(), max_retries=1)
            await server.becomes(job_id, "RUNNING", within_s=60)
            other = start()
            await asyncio.to_thread(other.ready)
            first.kill()

            async def handed_back() -> bool:
                moves = await path(conn, UUID(job_id))
                return "FAILED:LEASE_EXPIRED" in moves and "FAILED:NO_HANDLER" in moves

            await eventually(handed_back, within_s=60, what="its return by the other one")
            other.kill()
            gate.touch()
            start(*able)
            job = await server.becomes(job_id, "DONE", within_s=60)
            assert (job.attempt, job.retry_count) == (2, 1)
        finally:
            for program in programs:
                program.kill()
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
