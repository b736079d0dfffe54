"""Two servers and four workers on one database; one of each is killed while they work."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.domain.state import EVENT_TYPES
from jobqueue.errors import Unavailable
from tests.support.fleet import (
    ENDED,
    LEFT,
    NOT_DONE_ONCE,
    WORK_S,
    kill,
    kill_at_work,
    work_never_ends,
)
from tests.support.programs import ServerProgram, WorkerProgram
from tests.support.soundness import assert_sound
from tests.support.waiting import eventually

JOBS, BATCH, LEAST = 10_000, 200, 1_000
QUEUE = "fleet"
SERVERS, WORKERS = 2, 4
SETTINGS = {
    "lease_duration_s": 2,
    "lease_renew_interval_s": 0.6,
    "worker_heartbeat_interval_s": 0.5,
    "reaper_interval_ms": 200,
    "reaper_crash_limit": 1_000,
    "scheduler_interval_ms": 200,
}

STORED = "SELECT count(*) FROM jobqueue.jobs WHERE type = 'work'"
PAIRS = "SELECT DISTINCT from_status, to_status FROM jobqueue.job_event_log"
UNEXPLAINED = """
    SELECT job, array_agg(reason ORDER BY seq) AS reasons
    FROM jobqueue.job_event_log GROUP BY job
    HAVING count(*) FILTER (WHERE to_status = 'RUNNING')
           <> 1 + count(*) FILTER (WHERE to_status = 'FAILED'
                                     AND reason IN ('LEASE_EXPIRED', 'RELEASED'))
"""
RERUN = """
    SELECT count(*) FROM jobqueue.job_event_log
    WHERE to_status = 'FAILED' AND reason = 'LEASE_EXPIRED' AND worker_id = $1
"""


@dataclass(frozen=True)
class Fleet:
    """The programs, and a look into their database."""

    servers: Sequence[ServerProgram]
    workers: Sequence[WorkerProgram]
    conn: asyncpg.Connection


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest_asyncio.fixture
async def fleet(database: str, conn: asyncpg.Connection, logs: Path) -> AsyncIterator[Fleet]:
    servers = [ServerProgram(database, logs, **SETTINGS) for _ in range(SERVERS)]
    flags = ("--handlers", "tests.support.fleet_handlers", "--queues", QUEUE, "--concurrency", "16")
    workers = [
        WorkerProgram(
            database, logs, "--worker-id", f"w-{i}", "--log-level", "info", *flags, **SETTINGS
        )
        for i in range(WORKERS)
    ]
    try:
        for program in (*servers, *workers):
            await asyncio.to_thread(program.ready)
        yield Fleet(servers, workers, conn)
    finally:
        for program in (*servers, *workers):
            program.kill()


async def submit_all(addresses: Sequence[str]) -> None:
    """Submit through all servers in turn; what a dying one may have stored is sent again."""
    clients = deque(AsyncClient(address, timeout_s=30.0) for address in addresses)
    for batch in batches():
        await submit(clients, batch)
        clients.rotate()
    for client in clients:
        await client.close()


def batches() -> Iterator[list[JobSpec]]:
    for first in range(0, JOBS, BATCH):
        yield [
            JobSpec(QUEUE, b"%d" % i, type="work", idempotency_key=str(i))
            for i in range(first, first + BATCH)
        ]


async def submit(clients: deque[AsyncClient], batch: list[JobSpec]) -> None:
    """Submit by the first server that answers, and give up those that do not."""
    while True:
        try:
            await clients[0].submit_many(batch)
        except Unavailable:
            await clients.popleft().close()
            assert clients, "no server takes jobs"
        else:
            return


async def ended(fleet: Fleet, count: int) -> int:
    """Wait until so many jobs have ended; return how many really have."""

    async def look() -> int:
        seen: int = await fleet.conn.fetchval(ENDED)
        return seen if seen >= count else 0

    return await eventually(look, within_s=60, what=f"the end of {count} jobs")


async def all_ended(fleet: Fleet) -> bool:
    return bool(await fleet.conn.fetchval(LEFT) == 0)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_ten_thousand_jobs_are_done_once_though_a_server_and_a_worker_are_killed(
    fleet: Fleet, database: str, seed: int
) -> None:
    rng = random.Random(seed)
    server, worker = rng.randrange(SERVERS), rng.randrange(WORKERS)
    async with AsyncClient(fleet.servers[0].address) as client:
        await client.create_queue(QUEUE, max_retries=1_000, base_delay_s=0.2, max_delay_s=1.0)
    submitting = asyncio.create_task(submit_all([each.address for each in fleet.servers]))

    kills = {
        "server": lambda: kill(fleet.servers[server]),
        "worker": lambda: kill_at_work(
            fleet.conn, fleet.workers[worker], f"w-{worker}", work_s=WORK_S
        ),
    }
    plan = sorted((rng.uniform(0.05, 0.6), victim) for victim in kills)
    async with work_never_ends(database, QUEUE, LEAST):
        for share, victim in plan:
            await ended(fleet, int(share * JOBS))
            await kills[victim]()
            assert await fleet.conn.fetchval(LEFT) > 0, f"the {victim} was killed too late"
    await submitting
    await eventually(lambda: all_ended(fleet), within_s=100, what="the end of all jobs")

    assert await fleet.conn.fetchval(STORED) == JOBS
    assert await fleet.conn.fetch(NOT_DONE_ONCE) == []
    assert {tuple(pair) for pair in await fleet.conn.fetch(PAIRS)} <= EVENT_TYPES.keys()
    await assert_sound(fleet.conn)
    assert await fleet.conn.fetch(UNEXPLAINED) == []
    assert await fleet.conn.fetchval(RERUN, f"w-{worker}") > 0
