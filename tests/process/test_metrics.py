"""Metrics of real programs, read as Prometheus reads them (R-7.1)."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
import pytest_asyncio

from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_service_pb2 as jobs_pb
from jobqueue.v1 import worker_service_pb2 as worker_pb
from jobqueue.v1.admin_service_pb2_grpc import AdminServiceStub
from jobqueue.v1.job_pb2 import JobSpec, JobStatus
from jobqueue.v1.job_service_pb2_grpc import JobServiceStub
from jobqueue.v1.worker_service_pb2_grpc import WorkerServiceStub
from tests.conftest import Clusters
from tests.support.metrics import OPEN_METRICS, Page, metrics_port, read_page, scrape
from tests.support.postgres import DEFAULT
from tests.support.programs import Program, RemoteWorkerProgram, ServerProgram, WorkerProgram
from tests.support.store import path
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)

FAST = {
    "reaper_interval_ms": 100,
    "scheduler_interval_ms": 100,
    "retry_base_delay_s": 0.1,
    "worker_heartbeat_interval_s": 0.5,
    "worker_kill_grace_s": 0.5,
    "scheduler_assignment_timeout_s": 12,  # a prefetched job is handed back after half of it
}
DIRECT, REMOTE, UNSERVED, DOOMED = "direct", "remote", "unserved", "doomed"
FOREIGN = "foreign"
BY_USE = ("jq_db_query_duration_seconds", "jq_grpc_request_duration_seconds")
CALLS = "jq_grpc_request_duration_seconds_count"
COUNTS = "SELECT queue, to_status, count(*) FROM jobqueue.job_event_log GROUP BY 1, 2"
DEAD = """
    SELECT queue, reason, count(*) FROM jobqueue.job_event_log
    WHERE to_status = 'DEAD_LETTERED' GROUP BY 1, 2
"""
CHARGED = """
    SELECT e.queue, count(*) FROM jobqueue.job_event_log e
    WHERE e.to_status = 'FAILED'
      AND (e.reason IN ('HANDLER_FAILED', 'TIMED_OUT', 'ASSIGNMENT_TIMEOUT')
           OR (e.reason = 'LEASE_EXPIRED' AND e.from_status = 'RUNNING'))
      AND NOT EXISTS (SELECT FROM jobqueue.job_event_log x WHERE x.job_id = e.job_id
                      AND x.seq = e.seq + 1 AND x.reason IN ('RETRIES_EXHAUSTED', 'CRASH_LIMIT'))
    GROUP BY 1
"""
STATUSES = "SELECT queue, status, count(*) FROM jobqueue.job_status GROUP BY 1, 2"


@dataclass(frozen=True)
class Product:
    """Two servers, a worker on the database and one behind the first server."""

    servers: Sequence[ServerProgram]
    workers: Sequence[Program]
    conn: asyncpg.Connection

    async def pages(self) -> list[Page]:
        """Read every program."""
        return list(await asyncio.gather(*map(scrape, (*self.servers, *self.workers))))

    async def counted(self, name: str, *labels: str) -> Counter[tuple[str, ...]]:
        """Return the sum of a metric over all programs."""
        return sum((page.by(name, *labels) for page in await self.pages()), Counter())

    async def recorded(self, query: str) -> Counter[tuple[str, ...]]:
        """Return counts that the database tells."""
        return Counter({tuple(row)[:-1]: row["count"] for row in await self.conn.fetch(query)})

    async def agree(self, name: str, labels: Sequence[str], query: str) -> None:
        """Wait until a metric, summed up, is what the database tells."""
        seen: list[Counter[tuple[str, ...]]] = []

        async def look() -> bool:
            recorded = await self.recorded(query)
            seen[:] = [await self.counted(name, *labels), recorded]
            return seen[0] == seen[1] and recorded == await self.recorded(query)

        try:
            await eventually(look, within_s=30, what=name)
        except AssertionError as error:
            raise AssertionError(
                f"{name}: counted {seen[0] - seen[1]} too many, {seen[1] - seen[0]} too few"
            ) from error


@pytest_asyncio.fixture(scope="module")
async def product(
    clusters: Clusters, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Product]:
    """Started once for all tests here: each of them counts what it sees, not what was before."""
    cluster = await clusters.get(DEFAULT)
    dsn = await cluster.create_database()
    logs = tmp_path_factory.mktemp("metrics")
    started: list[Program] = []
    try:
        servers = [ServerProgram(dsn, logs, **FAST) for _ in range(2)]
        started += servers
        for server in servers:
            await asyncio.to_thread(server.ready)
        await make_queues(servers[0])
        room = ("--concurrency", "2", "--prefetch", "2", "--queues")
        started.append(WorkerProgram(dsn, logs, *room, f"{DIRECT},{DOOMED}", **FAST))
        started.append(RemoteWorkerProgram(servers[0].address, logs, *room, REMOTE, **FAST))
        for worker in started[2:]:
            await asyncio.to_thread(worker.ready)
        conn = await asyncpg.connect(dsn)
        yield Product(servers, started[2:], conn)
        await conn.close()
    finally:
        for program in started:
            program.kill()
        await cluster.drop_database(dsn)


async def make_queues(server: ServerProgram) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        for name in (DIRECT, REMOTE, UNSERVED, DOOMED):
            await Caller(channel).admin.CreateQueue(admin_pb.CreateQueueRequest(name=name))


class Caller:
    """Calls one server."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.jobs: Any = JobServiceStub(channel)
        self.admin: Any = AdminServiceStub(channel)
        self.workers: Any = WorkerServiceStub(channel)

    async def submit(
        self, queue: str, kind: str = "echo", payload: bytes = b"", **more: Any
    ) -> str:
        job = JobSpec(queue=queue, type=kind, payload=payload, **more)
        return str((await self.jobs.SubmitJob(jobs_pb.SubmitJobRequest(job=job))).job_id)

    async def cancel(self, job_id: str, *, running: bool = False) -> None:
        await self.jobs.CancelJob(jobs_pb.CancelJobRequest(job_id=job_id, running=running))

    async def reach(self, job_id: str, status: str) -> None:
        """Wait until a job is where it should be."""

        async def look() -> bool:
            job = (await self.jobs.GetJob(jobs_pb.GetJobRequest(job_id=job_id))).job
            return JobStatus.Name(job.status) == f"JOB_STATUS_{status}"

        await eventually(look, within_s=60, what=f"{job_id} {status}")


@pytest_asyncio.fixture
async def caller(product: Product) -> AsyncIterator[Caller]:
    async with grpc.aio.insecure_channel(product.servers[0].address) as channel:
        yield Caller(channel)


async def send_every_kind(caller: Caller, queue: str) -> None:
    """Let a job of a queue end in every way, and wait until it has."""
    done = [await caller.submit(queue) for _ in range(5)]
    batch = [JobSpec(queue=queue, type="echo") for _ in range(20)]
    done += (await caller.jobs.SubmitJobs(jobs_pb.SubmitJobsRequest(jobs=batch))).job_ids
    late = JobSpec(queue=queue, type="echo")
    late.delay.FromMilliseconds(300)
    done.append((await caller.jobs.SubmitJob(jobs_pb.SubmitJobRequest(job=late))).job_id)
    fails = [("async-raises", b"value", 2), ("async-raises", b"fail", 2), ("segfaults", b"", 0)]
    dead = [await caller.submit(queue, k, p, max_retries=n) for k, p, n in fails]
    stopped = await caller.submit(queue, "async-sleeps")
    await caller.reach(stopped, "RUNNING")
    await caller.cancel(stopped, running=True)
    waiting = [await caller.submit(queue, "async-raises", b"later")]
    waiting.append(await caller.submit(queue, "nobody-knows"))
    for job_id in waiting:
        await caller.reach(job_id, "FAILED")
        await caller.cancel(job_id)
    for job_id in (*dead, stopped, *waiting):
        await caller.reach(job_id, "DEAD_LETTERED")
    await caller.jobs.RetryJob(jobs_pb.RetryJobRequest(job_id=dead[1]))
    for job_id in done:
        await caller.reach(job_id, "DONE")
    await caller.reach(dead[1], "DEAD_LETTERED")


async def send_twice(caller: Caller) -> None:
    """Submit what is stored already, by request and by key; and what nobody runs in time."""
    spec = JobSpec(queue=UNSERVED, idempotency_key="once")
    spec.ttl.FromMilliseconds(200)
    for request in ("a" * 16, "a" * 16, "b" * 16):
        await caller.jobs.SubmitJob(jobs_pb.SubmitJobRequest(job=spec, request_id=request))
    job = JobSpec(queue=UNSERVED)
    for _ in range(2):
        batch = jobs_pb.SubmitJobsRequest(jobs=[job, job], request_id="c" * 16)
        await caller.jobs.SubmitJobs(batch)
    await caller.cancel(await caller.submit(UNSERVED))


async def hand_back(caller: Caller, conn: asyncpg.Connection, queue: str, go: Path) -> None:
    """Let a worker hold more than it can start in time."""
    payload = json.dumps({"command": f"while [ ! -e {go} ]; do sleep 0.05; done"}).encode()
    ids = [await caller.submit(queue, "shell", payload) for _ in range(4)]

    async def handed_back() -> bool:
        paths = [await path(conn, UUID(job_id)) for job_id in ids]
        return any("FAILED:RELEASED" in walked for walked in paths)

    await eventually(handed_back, within_s=60, what="a job that was handed back")
    go.touch()
    for job_id in ids:
        await caller.reach(job_id, "DONE")


async def test_all_programs_together_count_each_transition_once(
    product: Product, caller: Caller, tmp_path: Path
) -> None:
    await asyncio.gather(*(send_every_kind(caller, queue) for queue in (DIRECT, REMOTE)))
    await send_twice(caller)
    for queue in (DIRECT, REMOTE):
        await hand_back(caller, product.conn, queue, tmp_path / f"go-{queue}")
    await product.agree("jq_job_total", ("queue", "status"), COUNTS)
    await product.agree("jq_job_dead_lettered_total", ("queue", "reason"), DEAD)
    await product.agree("jq_job_retries_total", ("queue",), CHARGED)
    counted = await product.counted("jq_job_total", "queue", "status")
    for queue in (DIRECT, REMOTE):
        for metric, status in (
            ("jq_lease_acquired_total", "ASSIGNED"),
            ("jq_job_wait_seconds_count", "RUNNING"),
        ):
            assert (await product.counted(metric, "queue"))[queue,] == counted[queue, status]
    assert counted[REMOTE, "DONE"] >= 30, "the server writes for the remote worker"


async def test_every_server_shows_the_same_depths_and_no_deleted_queue(
    product: Product, caller: Caller
) -> None:
    for _ in range(3):
        await caller.submit(UNSERVED)
    await caller.reach(await caller.submit(DOOMED), "DONE")

    async def equal() -> bool:
        pages = await asyncio.gather(*map(scrape, product.servers))
        stored = await product.recorded(STATUSES)
        waiting = stored[UNSERVED, "PENDING"]
        return all(
            page.by("jq_job_queue_depth", "queue", "status") == stored
            and page.value("jq_queue_runnable", queue=UNSERVED) == waiting >= 3
            and (page.value("jq_job_oldest_age_seconds", queue=UNSERVED) or 0) > 0
            and page.value("jq_worker_active_count") == len(product.workers)
            for page in pages
        )

    await eventually(equal, within_s=60, what="the figures of both servers")
    request = admin_pb.DeleteQueueRequest(name=DOOMED, force=True)
    await caller.admin.DeleteQueue(request)

    async def gone() -> bool:
        pages = [*await asyncio.gather(*map(scrape, (*product.servers, product.workers[0])))]
        return not any(DOOMED in page.queues() for page in pages)

    await eventually(gone, within_s=60, what="the end of the queue's series")


async def test_names_that_callers_and_workers_send_make_no_series(
    product: Product, caller: Caller
) -> None:
    async def visible() -> int:
        pages = await product.pages()
        values = {v for page in pages for sample in page.samples for v in sample.labels.values()}
        assert not [value for value in values if FOREIGN in value]
        # Statements and methods are closed lists, but each is there from its first use on.
        return sum(not s.name.startswith(BY_USE) for page in pages for s in page.samples)

    async def complete() -> bool:
        pages = await asyncio.gather(*map(scrape, product.servers))
        return all(
            page.queues("jq_job_queue_depth") >= {DIRECT, REMOTE, UNSERVED} for page in pages
        )

    await send_names(caller, 1)
    await eventually(complete, what="the figures of all queues on both servers")
    before = await visible()
    await send_names(caller, 200)
    failed = "SELECT count(*) FROM jobqueue.finished WHERE error LIKE $1"
    assert await product.conn.fetchval(failed, f"%{FOREIGN}%") >= 20
    assert await visible() == before


async def send_names(caller: Caller, count: int) -> None:
    """Send so many of each name that a caller chooses; a tenth of the jobs fails with one."""
    names = [f"{FOREIGN}-{uuid4().hex}" for _ in range(count)]
    await asyncio.gather(*(caller.submit(UNSERVED, name, idempotency_key=name) for name in names))
    told = [json.dumps({"command": f"echo {name} >&2; exit 1"}) for name in names[::10]]
    failing = [await caller.submit(DIRECT, "shell", c.encode(), max_retries=0) for c in told]
    for name in names:
        with pytest.raises(grpc.aio.AioRpcError):
            await caller.submit(name)
        request = worker_pb.RegisterRequest(
            worker_id=name, hostname=name, queues=[name], types=[name], concurrency=1, version=name
        )
        session = (await caller.workers.Register(request)).session
        await caller.workers.Deregister(worker_pb.DeregisterRequest(session=session))
    for job_id in failing:
        await caller.reach(job_id, "DEAD_LETTERED")


async def test_a_server_counts_calls_by_method_and_code_and_all_unknown_methods_as_one(
    product: Product,
) -> None:
    server = product.servers[1]
    before = (await scrape(server)).by(CALLS, "method", "status_code")
    async with grpc.aio.insecure_channel(server.address) as channel:
        caller = Caller(channel)
        await caller.submit(UNSERVED)
        with pytest.raises(grpc.aio.AioRpcError):
            await caller.jobs.GetJob(jobs_pb.GetJobRequest(job_id="no id"))
        for name in ("One", "Two"):
            unknown: Any = channel.unary_unary(f"/jobqueue.v1.JobService/{name}")
            with pytest.raises(grpc.aio.AioRpcError):
                await unknown(b"")
    page = await scrape(server)
    assert page.by(CALLS, "method", "status_code") - before == {
        ("JobService/SubmitJob", "OK"): 1,
        ("JobService/GetJob", "INVALID_ARGUMENT"): 1,
        ("unknown", "UNIMPLEMENTED"): 2,
    }
    statements = page.by("jq_db_query_duration_seconds_count", "query_name")
    assert statements["submit_jobs",] >= 1
    assert page.value("jq_loop_last_progress_seconds", loop="scheduler-promotion") is not None
    assert page.value("jq_db_oldest_xmin_age_seconds") is not None


async def test_a_worker_shows_what_it_runs_and_answers_in_open_metrics(
    product: Product, caller: Caller
) -> None:
    worker = product.workers[0]
    stopped = await caller.submit(DIRECT, "async-sleeps")
    await caller.reach(stopped, "RUNNING")
    named = next(line["worker_id"] for line in worker.lines() if "worker_id" in line)
    page = await scrape(worker)
    assert page.value("jq_worker_job_concurrency", worker_id=named) == 1
    await caller.cancel(stopped, running=True)
    await caller.reach(stopped, "DEAD_LETTERED")
    page = await asyncio.to_thread(read_page, metrics_port(worker), OPEN_METRICS)
    assert page.content_type.startswith("application/openmetrics-text")
    assert page.text.endswith("# EOF\n")


async def test_a_killed_workers_leases_are_counted_as_expired_by_a_server(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    times = {"lease_duration_s": 5, "lease_renew_interval_s": 0.3, **FAST}
    server = ServerProgram(database, logs, **times)
    worker = WorkerProgram(database, logs, **times)
    try:
        for program in (server, worker):
            await asyncio.to_thread(program.ready)
        async with grpc.aio.insecure_channel(server.address) as channel:
            caller = Caller(channel)
            job_id = await caller.submit("default", "async-sleeps", max_retries=0)
            await caller.reach(job_id, "RUNNING")

            async def renewed() -> bool:
                page = await scrape(worker)
                return bool(page.by("jq_lease_renewed_total", "queue")["default",])

            await eventually(renewed, within_s=30, what="a renewal")
            worker.kill()
            await caller.reach(job_id, "DEAD_LETTERED")
        page = await scrape(server)
        assert page.by("jq_lease_expired_total", "queue") == {("default",): 1}
        assert page.by("jq_job_dead_lettered_total", "reason") == {("RETRIES_EXHAUSTED",): 1}
    finally:
        server.kill()
        worker.kill()
