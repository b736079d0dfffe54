"""Four remote workers and two servers under load, while servers, a worker and a keeper end."""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, JobSpec
from tests.support.family import children_with
from tests.support.fleet import LEFT, NOT_DONE_ONCE, STEADY_S, kill_at_work, work_never_ends
from tests.support.programs import Program, RemoteWorkerProgram, ServerProgram
from tests.support.redis import free_port
from tests.support.soundness import assert_sound
from tests.support.waiting import eventually

JOBS, LEAST, WORKERS = 1_500, 500, 4
WELL_BEGUN = f"SELECT count(*) >= {JOBS // 10} FROM jobqueue.finished"
QUEUE = "fleet"
SETTINGS = {
    "lease_duration_s": 5,
    "lease_renew_interval_s": 1,
    "worker_heartbeat_interval_s": 0.5,
    "reaper_interval_ms": 200,
    "scheduler_interval_ms": 200,
}

STARTED_TOO_OFTEN = """
    SELECT job, array_agg(reason ORDER BY seq) AS reasons
    FROM jobqueue.job_event_log GROUP BY job
    HAVING count(*) FILTER (WHERE to_status = 'RUNNING')
           <> 1 + count(*) FILTER (WHERE from_status = 'RUNNING' AND reason = 'LEASE_EXPIRED')
"""
RERUN = """
    SELECT count(*) FROM jobqueue.job_event_log
    WHERE from_status = 'RUNNING' AND reason = 'LEASE_EXPIRED' AND worker_id = $1
"""


@dataclass
class Fleet:
    """The programs, and a look into their database. Servers keep their ports when replaced."""

    start_server: Callable[[int], ServerProgram]
    servers: list[ServerProgram]
    workers: list[RemoteWorkerProgram]
    conn: asyncpg.Connection

    async def replace(self, i: int, number: signal.Signals) -> None:
        """End a server while there is work, and start another on its port."""
        ended = self.servers[i]
        ended.send(number)
        assert await self.conn.fetchval(LEFT) > 0, "it ended too late to matter"
        code = await asyncio.to_thread(ended.ended, 40)
        assert code == (0 if number is signal.SIGTERM else -number), ended.text()
        self.servers[i] = self.start_server(i)


@pytest_asyncio.fixture
async def fleet(database: str, conn: asyncpg.Connection, tmp_path: Path) -> AsyncIterator[Fleet]:
    logs = tmp_path / "logs"
    logs.mkdir()
    ports = [free_port(), free_port()]
    made: list[Program] = []

    def start_server(i: int) -> ServerProgram:
        server = ServerProgram(database, logs, "--grpc-port", str(ports[i]), **SETTINGS)
        made.append(server)
        return server

    servers = [start_server(i) for i in range(2)]
    try:
        for server in servers:
            await asyncio.to_thread(server.ready)
        workers = [start_worker(logs, i, ports) for i in range(WORKERS)]
        made.extend(workers)
        for worker in workers:
            await asyncio.to_thread(worker.ready)
        yield Fleet(start_server, servers, workers, conn)
    finally:
        for program in made:
            program.kill()


def start_worker(logs: Path, i: int, ports: list[int]) -> RemoteWorkerProgram:
    """Start a worker that knows both servers; half of them look first at each."""
    order = ports if i % 2 else ports[::-1]
    address = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in order)
    flags = ("--handlers", "tests.support.fleet_handlers", "--queues", QUEUE)
    room = ("--concurrency", "4", "--prefetch", "4", "--worker-id", f"w-{i}")
    return RemoteWorkerProgram(address, logs, *flags, *room, "--log-level", "info")


def kill_keeper(fleet: Fleet, worker: int) -> None:
    pid = fleet.workers[worker].process.pid
    (keeper,) = children_with(pid, "jobqueue.remote.keeper_process")
    keeper.kill()
    keeper.wait(20)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_no_job_is_lost_or_doubled_while_servers_and_workers_end(
    fleet: Fleet, database: str
) -> None:
    seed = int(os.environ.get("JQ_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"JQ_TEST_SEED={seed}")  # noqa: T201 - shown when the test fails
    dead_worker, other = random.Random(seed).sample(range(WORKERS), 2)
    async with AsyncClient(fleet.servers[0].address, timeout_s=30.0) as client:
        await client.create_queue(QUEUE, base_delay_s=0.2, max_delay_s=1.0)
        await client.submit_many([JobSpec(QUEUE, b"%d" % i, type="steady") for i in range(JOBS)])

    async with work_never_ends(database, QUEUE, LEAST):
        await eventually(lambda: fleet.conn.fetchval(WELL_BEGUN), what="a tenth of the jobs")
        await fleet.replace(0, signal.SIGTERM)
        kill_keeper(fleet, other)
        victim = fleet.workers[dead_worker]
        await kill_at_work(fleet.conn, victim, f"w-{dead_worker}", work_s=STEADY_S)
        await fleet.replace(1, signal.SIGKILL)

    async def all_ended() -> bool:
        return bool(await fleet.conn.fetchval(LEFT) == 0)

    await eventually(all_ended, within_s=100, what="the end of all jobs")

    assert await fleet.conn.fetch(NOT_DONE_ONCE) == []
    assert await fleet.conn.fetch(STARTED_TOO_OFTEN) == []
    assert await fleet.conn.fetchval(RERUN, f"w-{dead_worker}") > 0
    await assert_sound(fleet.conn)
