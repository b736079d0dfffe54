"""Signals at random moments: a worker and a server end as promised whatever they were doing.

The moment is drawn, not awaited: it is the fault. What follows is awaited (R-4.8, R-4.9).
"""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import asyncpg
import psutil
import pytest

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.errors import JobQueueError
from tests.support.facade import Facade, serving
from tests.support.programs import Program, ServerProgram, WorkerProgram
from tests.support.soundness import assert_sound
from tests.support.waiting import eventually

ROUNDS = int(os.environ.get("JQ_TEST_ROUNDS", "5"))
LAST_MOMENT_S = 1.0
"""Signals come after a random time up to this: any moment is meant, so no state is awaited."""
KILLED_BEFORE_HANDLERS = -signal.SIGTERM
"""A program that Python has not loaded yet ends by the default action; it holds nothing then."""

SETTINGS = {
    "lease_duration_s": 20,
    "lease_renew_interval_s": 1,
    "worker_heartbeat_interval_s": 0.5,
    "worker_kill_grace_s": 0.5,
    "worker_shutdown_grace_period_s": 0.5,
    "worker_prefetch": 4,
}
"""The lease outlasts a round: what comes back in time was released, not taken back."""

HELD = "SELECT count(*) FROM jobqueue.leases"
LEFT = "SELECT count(*) FROM jobqueue.workers"
CHARGED = """
    SELECT reason, count(*) AS n FROM jobqueue.job_event_log
    WHERE to_status = 'FAILED' AND reason <> 'RELEASED' GROUP BY reason
"""
STORED = "SELECT count(*) FROM jobqueue.jobs WHERE job_id = ANY($1::uuid[])"


@pytest.fixture
def moments(seed: int) -> random.Random:
    return random.Random(seed)


@contextmanager
def ended_after(program: Program) -> Iterator[None]:
    try:
        yield
    finally:
        program.kill()


def kinds() -> Iterator[tuple[str, bytes]]:
    """Yield what the worker is busy with: short and endless, on its loop, in child and command."""
    while True:
        yield "echo", b"x"
        yield "async-returns", b"none"
        yield "shell", json.dumps({"command": "sleep 0.2"}).encode()
        yield "shell", json.dumps({"command": "trap '' TERM; sleep 60"}).encode()


async def feed(server: Facade, count: int) -> None:
    for _, (kind, payload) in zip(range(count), kinds(), strict=False):
        await server.submit(type=kind, payload=payload)


@pytest.mark.slow
@pytest.mark.timeout(60 * ROUNDS)
async def test_a_worker_that_is_told_to_end_at_any_moment_leaves_nothing_behind(
    database: str, conn: asyncpg.Connection, tmp_path: Path, moments: random.Random
) -> None:
    async with serving(database, scheduler__interval_ms=100) as server:
        for number in range(ROUNDS):
            await feed(server, 12)
            worker = WorkerProgram(database, tmp_path, "--concurrency", "3", **SETTINGS)
            with ended_after(worker):
                if number:  # the first is told while it starts
                    await asyncio.to_thread(worker.ready)
                await asyncio.sleep(moments.uniform(0, LAST_MOMENT_S))
                worker.send(signal.SIGTERM)
                code = await asyncio.to_thread(worker.ended)
            assert code == 0 or (number == 0 and code == KILLED_BEFORE_HANDLERS), worker.text()
            assert await conn.fetchval(HELD) == 0
            assert await conn.fetchval(LEFT) == 0
        assert await conn.fetch(CHARGED) == []
        await assert_sound(conn)


@pytest.mark.slow
async def test_a_worker_that_is_told_twice_gives_everything_back_and_says_so(
    database: str, conn: asyncpg.Connection, tmp_path: Path, moments: random.Random
) -> None:
    async with serving(database, scheduler__interval_ms=100) as server:
        patient = {**SETTINGS, "worker_shutdown_grace_period_s": 60}
        for again in islice(cycle((signal.SIGTERM, signal.SIGINT)), ROUNDS // 2):
            await feed(server, 12)
            worker = WorkerProgram(database, tmp_path, "--concurrency", "4", **patient)
            with ended_after(worker):
                await asyncio.to_thread(worker.ready)
                await _running(conn, "sleep 60")
                worker.send(signal.SIGTERM)
                await _stopping(worker)
                await asyncio.sleep(moments.uniform(0, LAST_MOMENT_S))
                worker.send(again)
                assert await asyncio.to_thread(worker.ended) == 1, worker.text()
            assert await conn.fetchval(HELD) == 0
        await assert_sound(conn)


@pytest.mark.slow
@pytest.mark.timeout(60 * ROUNDS)
async def test_a_worker_that_is_killed_while_it_ends_loses_no_job_and_leaves_no_process(
    database: str, conn: asyncpg.Connection, tmp_path: Path, moments: random.Random
) -> None:
    short = {**SETTINGS, "lease_duration_s": 6, "worker_shutdown_grace_period_s": 60}
    async with serving(database, reaper__interval_ms=100, scheduler__interval_ms=100) as server:
        for _ in range(ROUNDS // 2):
            await feed(server, 12)
            worker = WorkerProgram(database, tmp_path, "--concurrency", "4", **short)
            with ended_after(worker):
                await asyncio.to_thread(worker.ready)
                await _running(conn, "sleep 60")
                worker.send(signal.SIGTERM)
                await _stopping(worker)
                await asyncio.sleep(moments.uniform(0, LAST_MOMENT_S))
                family = psutil.Process(worker.process.pid).children(recursive=True)
                held = await conn.fetchval(HELD)
                worker.send(signal.SIGKILL)
                assert await asyncio.to_thread(worker.ended) == -signal.SIGKILL
            assert held > 0, "it was killed with work in its hands"
            await eventually(lambda: _all_back(conn), what="the end of its leases")
            await eventually(partial(_gone, family), what="the end of its processes")
        await assert_sound(conn)


async def _all_back(conn: asyncpg.Connection) -> bool:
    return bool(await conn.fetchval(HELD) == 0)


async def _gone(family: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(family, timeout=0)
    return not alive


@asynccontextmanager
async def submitting(address: str, accepted: list[str]) -> AsyncIterator[None]:
    """Submit without a pause from eight callers; note the ids that were answered."""
    async with AsyncClient(address, timeout_s=10.0) as client:
        callers = [asyncio.create_task(_submit(client, accepted)) for _ in range(8)]
        try:
            yield
            assert not any(caller.done() for caller in callers), callers
        finally:
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)


async def _submit(client: AsyncClient, accepted: list[str]) -> None:
    while True:
        try:
            made = await client.submit(JobSpec("default", b"x"))
        except JobQueueError:
            await asyncio.sleep(0.01)  # it is away; the next try may be too
        else:
            accepted.append(str(made.job_id))


async def _running(conn: asyncpg.Connection, command: str) -> None:
    """Wait until a job that will not end by itself runs."""

    async def found() -> bool:
        return bool(
            await conn.fetchval(
                "SELECT count(*) FROM jobqueue.leases l JOIN jobqueue.jobs j USING (id)"
                " WHERE l.running AND position($1::bytea in j.payload) > 0",
                command.encode(),
            )
        )

    await eventually(found, what=f"a running {command!r}")


async def _stopping(worker: WorkerProgram) -> None:
    async def told() -> bool:
        return '"stopping"' in worker.text()

    await eventually(told, what="the first signal's effect")


@pytest.mark.slow
@pytest.mark.timeout(60 * ROUNDS)
async def test_a_server_that_is_told_to_end_at_any_moment_keeps_what_it_accepted(
    database: str, conn: asyncpg.Connection, tmp_path: Path, moments: random.Random
) -> None:
    accepted: list[str] = []

    async def many() -> bool:
        return len(accepted) > ROUNDS

    for number in range(ROUNDS):
        server = ServerProgram(database, tmp_path)
        with ended_after(server):
            if number:
                await asyncio.to_thread(server.ready)
                async with submitting(server.address, accepted):
                    if number == 1:  # in the others it may be told before it accepts any
                        await eventually(many, what="jobs that were accepted")
                    await asyncio.sleep(moments.uniform(0, LAST_MOMENT_S))
                    server.send(signal.SIGTERM)
                    code = await asyncio.to_thread(server.ended)
            else:
                await asyncio.sleep(moments.uniform(0, LAST_MOMENT_S))
                server.send(signal.SIGTERM)
                code = await asyncio.to_thread(server.ended)
        assert code == 0 or (number == 0 and code == KILLED_BEFORE_HANDLERS), server.text()
    assert len(accepted) > ROUNDS
    assert await conn.fetchval(STORED, accepted) == len(accepted)
    await assert_sound(conn)
