"""Callers, servers and workers whose clocks are ten minutes off, and are set meanwhile."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, Job, JobSpec
from tests.support.clocks import LIBRARY, OtherClock, sweep
from tests.support.facade import serving
from tests.support.programs import (
    Program,
    RemoteWorkerProgram,
    ServerProgram,
    WorkerProgram,
    run_ctl,
)
from tests.support.soundness import assert_sound
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="there is no libfaketime for this machine")

OFF_S = 600
LEASE_S = 15
SETTINGS = {
    "lease_duration_s": LEASE_S,
    "lease_renew_interval_s": 0.5,
    "worker_heartbeat_interval_s": 0.5,
    "reaper_interval_ms": 100,
    "scheduler_interval_ms": 100,
    "retry_base_delay_s": 0.5,
}
QUEUES = NEAR, FAR = "default", "far"
"""That of the worker on the database, and that of the one behind the server."""
NOBODYS = "nobodys"
ONCE = {("DONE", 1)}
UNTRUE_DATES = """
    SELECT count(*) FROM jobqueue.job_events
    WHERE at NOT BETWEEN $1 AND clock_timestamp()
"""
LOST = "SELECT count(*) FROM jobqueue.job_events WHERE reason = 'LEASE_EXPIRED'"


@dataclass(frozen=True)
class Fleet:
    """A server and two workers, the clocks that they have, and since when all that is."""

    server: ServerProgram
    near: WorkerProgram
    far: RemoteWorkerProgram
    servers: OtherClock
    workers: OtherClock
    began: datetime


@pytest_asyncio.fixture
async def fleet(database: str, conn: asyncpg.Connection, tmp_path: Path) -> AsyncIterator[Fleet]:
    logs = tmp_path / "logs"
    logs.mkdir()
    servers = OtherClock(tmp_path / "servers", -OFF_S)
    workers = OtherClock(tmp_path / "workers", OFF_S)
    began = await conn.fetchval("SELECT clock_timestamp()")
    with ExitStack() as running:
        running.callback(sweep, time.time() - 1)
        with servers.shown():
            server = ServerProgram(database, logs, **SETTINGS)
        running.callback(server.kill)
        await asyncio.to_thread(server.ready)
        async with AsyncClient(server.address) as client:
            for queue in (FAR, NOBODYS):
                await client.create_queue(queue)
        with workers.shown():
            near = WorkerProgram(database, logs, "--queues", NEAR, **SETTINGS)
            running.callback(near.kill)
            far = RemoteWorkerProgram(server.address, logs, "--queues", FAR, **SETTINGS)
            running.callback(far.kill)
        for worker in (near, far):
            await asyncio.to_thread(worker.ready)
        yield Fleet(server, near, far, servers, workers, began)


def shell(queue: str, command: str, **more: object) -> JobSpec:
    payload = json.dumps({"command": command}).encode()
    return JobSpec(queue, payload, type="shell", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("ahead_s", [OFF_S, -OFF_S])
async def test_a_delay_is_as_long_as_it_was_said_whatever_clock_its_caller_has(
    database: str, tmp_path: Path, ahead_s: int
) -> None:
    asked = ("job", "submit", "--queue", "default", "--payload", "x", "--delay", "60")
    since = time.time() - 1
    async with serving(database) as server:
        with OtherClock(tmp_path / "callers", ahead_s).shown():
            said = await asyncio.to_thread(run_ctl, f"127.0.0.1:{server.port}", *asked)
        sweep(since)
        assert said.returncode == 0, said.stderr
        job = await server.get(said.stdout.decode().strip())
    assert job.not_before.ToMicroseconds() - job.created_at.ToMicroseconds() == 60_000_000


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_clocks_ten_minutes_off_that_are_set_meanwhile_change_nothing(
    fleet: Fleet, conn: asyncpg.Connection
) -> None:
    async with AsyncClient(fleet.server.address, timeout_s=90.0) as client:
        await asyncio.gather(*(everything_as_ever(queue, client) for queue in QUEUES))
        await clocks_are_off(fleet, client)
        crossing = [await started(client, shell(queue, f"sleep {LEASE_S + 1}")) for queue in QUEUES]
        fleet.workers.set(-OFF_S)
        fleet.servers.set(OFF_S)
        await asyncio.gather(*(everything_as_ever(queue, client) for queue in QUEUES))
        assert {(str(job.status), job.attempt) for job in await ended(client, crossing)} == ONCE
        await clocks_are_off(fleet, client)
        assert await conn.fetchval(LOST) == 0
        await is_taken_back_from_the_dead(fleet, client, conn)
    fleet.server.send(signal.SIGTERM)
    assert await asyncio.to_thread(fleet.server.ended) == 0
    assert ahead_s(fleet.server, -1) == pytest.approx(OFF_S, abs=OFF_S / 2)
    assert await conn.fetchval(UNTRUE_DATES, fleet.began) == 0
    await assert_sound(conn)


async def everything_as_ever(queue: str, client: AsyncClient) -> None:
    """See one job of each kind that has to do with time come to its end."""
    soon = datetime.now(UTC) + timedelta(seconds=2)
    made = await client.submit_many(
        [
            shell(queue, f"sleep {LEASE_S + 1}"),
            JobSpec(queue, b"x", type="echo", delay_s=2.0),
            JobSpec(queue, b"x", type="echo", not_before=soon),
            JobSpec(queue, b"x", type="echo", ttl_s=OFF_S / 2),
            shell(queue, "sleep 60", timeout_s=1.0, max_retries=0),
            JobSpec(queue, b"value", type="raises", max_retries=1),
            JobSpec(NOBODYS, ttl_s=1.0),
        ]
    )
    done = await ended(client, [one.job_id for one in made])
    longer, delayed, dated, mortal, hung, again, expired = done
    assert lasted_s(longer) > LEASE_S
    assert waited_s(delayed) >= 2.0
    assert dated.started_at is not None
    assert dated.started_at >= soon
    assert {(str(job.status), job.attempt) for job in (longer, delayed, dated, mortal)} == ONCE
    assert hung.last_error == "timed out after 1 s"
    assert 1.0 <= lasted_s(hung) < OFF_S / 2
    assert (str(again.reason), again.attempt) == ("RETRIES_EXHAUSTED", 2)
    assert expired.finished_at is not None
    assert str(expired.reason) == "TTL_EXPIRED"
    assert 1.0 <= (expired.finished_at - expired.created_at).total_seconds() < OFF_S / 2


async def ended(client: AsyncClient, ids: Sequence[UUID]) -> list[Job]:
    return await asyncio.gather(*(client.wait(job_id) for job_id in ids))


def waited_s(job: Job) -> float:
    assert job.started_at is not None
    return (job.started_at - job.created_at).total_seconds()


def lasted_s(job: Job) -> float:
    assert job.started_at is not None
    assert job.finished_at is not None
    return (job.finished_at - job.started_at).total_seconds()


async def clocks_are_off(fleet: Fleet, client: AsyncClient) -> None:
    """See it in what keepers tell, in what handlers are told, and in the lines of programs."""
    off_s = pytest.approx(fleet.workers.ahead_s, abs=OFF_S / 2)

    async def told() -> bool:
        return all(each.clock_skew_s == off_s for each in await client.list_workers())

    await eventually(told, within_s=30, what="beats of workers with another clock")
    for queue, worker in zip(QUEUES, (fleet.near, fleet.far), strict=True):
        asked = await client.submit(shell(queue, "date +%s"))
        said = (await client.wait(asked.job_id)).result or b""
        assert int(said) - time.time() == off_s
        assert ahead_s(worker, -1) == off_s
    if fleet.servers.ahead_s < 0:  # a server that is well has nothing more to say
        assert ahead_s(fleet.server, 0) == pytest.approx(fleet.servers.ahead_s, abs=OFF_S / 2)


def ahead_s(program: Program, line: int) -> float:
    """Return how far the date of a line that was just written is ahead."""
    date = datetime.fromisoformat(program.lines()[line]["timestamp"])
    return date.timestamp() - time.time()


async def is_taken_back_from_the_dead(
    fleet: Fleet, client: AsyncClient, conn: asyncpg.Connection
) -> None:
    """Kill both workers at work: leases end when they should, by whoever's clock."""
    for queue, worker in zip(QUEUES, (fleet.near, fleet.far), strict=True):
        await started(client, shell(queue, "sleep 60"))
        worker.kill()

    async def taken_back() -> bool:
        return bool(await conn.fetchval(LOST) == len(QUEUES))

    await eventually(taken_back, within_s=60, what="the end of both leases")


async def started(client: AsyncClient, spec: JobSpec) -> UUID:
    job_id = (await client.submit(spec)).job_id

    async def runs() -> bool:
        return str((await client.get(job_id)).status) == "RUNNING"

    await eventually(runs, within_s=30, what="an attempt under way")
    return job_id
