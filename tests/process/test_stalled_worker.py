"""Workers as programs: killed, stalled, stopped; and what becomes of keepers and leases."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace

import psutil

from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.takeover import Takeover, expired
from jobqueue.store.pool import Connection
from tests.support.leases import QUICK, SHORT
from tests.support.store import (
    path,
    status,
    submit,
)
from tests.support.waiting import HANG_S, eventually


@asynccontextmanager
async def program(
    dsn: str, mode: str, settings: LeaseSettings
) -> AsyncIterator[tuple[Process, dict[str, int]]]:
    """Run a worker as a program of its own; yield it and what it said first."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.stalling_worker",
        dsn,
        mode,
        json.dumps(asdict(settings)),
        stdin=PIPE,
        stdout=PIPE,
    )
    try:
        yield process, await line_of(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line_of(process: Process) -> dict[str, int]:
    assert process.stdout is not None
    async with asyncio.timeout(HANG_S):
        said: dict[str, int] = json.loads(await process.stdout.readline())
    return said


async def gone(pid: int) -> bool:
    """Tell whether a process has ended, whoever has yet to collect it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_keeper_dies_with_its_killed_worker(database: str, db: Connection) -> None:
    await submit(db)
    async with program(database, "hold", QUICK) as (process, said):
        assert not await gone(said["keeper"])
        process.kill()
        await eventually(lambda: gone(said["keeper"]), what="the keeper ends")


async def test_a_worker_whose_loop_stands_still_is_killed(database: str, db: Connection) -> None:
    (job_id,) = await submit(db)
    async with program(database, "stall", replace(QUICK, stall_limit_s=5.0)) as (process, said):
        async with asyncio.timeout(HANG_S):
            assert await process.wait() == -signal.SIGKILL
        await eventually(lambda: gone(said["keeper"]), what="the keeper ends")
    assert await status(db, job_id) == "RUNNING", "nobody but the reaper takes it back"


async def test_a_worker_that_waits_for_its_database_does_not_stand_still() -> None:
    settings = replace(QUICK, stall_limit_s=4.0)
    async with program("postgresql://127.0.0.1:1/none", "wait", settings) as (process, said):
        assert said == {"opened": False}, "it waited for three times the limit"
        async with asyncio.timeout(HANG_S):
            assert await process.wait() == 0


async def test_a_worker_whose_claims_take_long_while_its_loop_turns_does_not_stand_still(
    database: str, db: Connection
) -> None:
    (job_id,) = await submit(db)
    async with program(database, "hold", replace(QUICK, stall_limit_s=4.0)) as (process, _):
        await eventually(
            lambda: db.fetchval("SELECT last_beat_at - started_at > '12 s' FROM jobqueue.workers"),
            what="a worker that lives for three times the limit",
        )
        assert process.stdin is not None
        process.stdin.write(b"settle\n")
        assert await line_of(process) == {"settled": True}
    assert await status(db, job_id) == "DONE"


async def test_a_worker_stopped_beyond_its_lease_is_reaped_once_and_its_outcome_refused(
    database: str, db: Connection
) -> None:
    (job_id,) = await submit(db)
    reaper = Takeover(expired(), page_size=10, crash_limit=3)

    async def reaped() -> bool:
        return (await reaper.step(db)).taken == 1

    async with program(database, "hold", SHORT) as (process, said):
        for pid in (said["pid"], said["keeper"]):
            os.kill(pid, signal.SIGSTOP)
        await eventually(reaped, what="the lease runs out")
        assert (await reaper.step(db)).taken == 0
        for pid in (said["keeper"], said["pid"]):
            os.kill(pid, signal.SIGCONT)
        assert process.stdin is not None
        process.stdin.write(b"settle\n")
        answers = [await line_of(process)]
        if "settled" not in answers[0]:
            answers.append(await line_of(process))
        assert answers[-1] == {"settled": False}
    events = await path(db, job_id)
    assert events.count("FAILED:LEASE_EXPIRED") == 1
    assert events[-1] == "FAILED:LEASE_EXPIRED"
