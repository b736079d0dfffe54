"""What the tests of whole fleets ask the database, and how they kill a worker at its work."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.support.programs import Program
from tests.support.store import submit
from tests.support.waiting import eventually

# How long its handlers work.
WORK_S, STEADY_S = 0.02, 0.1

ENDED = "SELECT count(*) FROM jobqueue.finished"
LEFT = "SELECT (SELECT count(*) FROM jobqueue.jobs) - (SELECT count(*) FROM jobqueue.finished)"
NOT_DONE_ONCE = """
    SELECT s.job_id, s.status, count(e.seq) AS times
    FROM jobqueue.job_status s
    LEFT JOIN jobqueue.job_event_log e ON e.job_id = s.job_id AND e.to_status = 'DONE'
    GROUP BY s.job_id, s.status HAVING s.status <> 'DONE' OR count(e.seq) <> 1
"""
_JUST_STARTED = """
    SELECT EXISTS (
        SELECT FROM jobqueue.leases l JOIN jobqueue.worker_names n USING (worker_id)
        WHERE n.name = $1 AND l.running
          AND l.started_at > clock_timestamp() - make_interval(secs => $2)
    )
"""


@asynccontextmanager
async def work_never_ends(dsn: str, queue: str, least: int) -> AsyncIterator[None]:
    """Add jobs where fewer than ``least`` are left: what happens in the block meets work."""
    db = await asyncpg.connect(dsn)

    async def add() -> None:
        while True:
            if await db.fetchval(LEFT) < least:
                await submit(db, least, queue=queue, type="steady")
            await asyncio.sleep(0.1)  # the pace of a load

    adding = asyncio.create_task(add())
    try:
        yield
        assert not adding.done(), adding
    finally:
        adding.cancel()
        await asyncio.wait({adding})
        await db.close()


async def kill_at_work(
    conn: asyncpg.Connection, program: Program, name: str, *, work_s: float
) -> None:
    """Kill the worker of this name while a job is in its hands that takes ``work_s`` seconds.

    A job that began less than ``work_s`` ago cannot have been settled by a worker that stands
    still, not even by a request that is on its way.
    """

    async def stands_still_at_work() -> bool:
        program.send(signal.SIGSTOP)
        await eventually(program.stands_still, what="a worker that stands still")
        if await conn.fetchval(_JUST_STARTED, name, work_s):
            return True
        program.send(signal.SIGCONT)
        return False

    await eventually(stands_still_at_work, what="a worker at work")
    await kill(program)


async def kill(program: Program) -> None:
    """End a program by SIGKILL."""
    program.send(signal.SIGKILL)
    assert await asyncio.to_thread(program.ended) == -signal.SIGKILL
