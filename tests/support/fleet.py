"""What the tests of whole fleets ask the database, and how they kill a worker at its work."""

import asyncio
import signal

import asyncpg

from tests.support.programs import Program
from tests.support.waiting import eventually

ENDED = "SELECT count(*) FROM jobqueue.finished"
NOT_DONE_ONCE = """
    SELECT s.job_id, s.status, count(e.seq) AS times
    FROM jobqueue.job_status s
    LEFT JOIN jobqueue.job_event_log e ON e.job_id = s.job_id AND e.to_status = 'DONE'
    GROUP BY s.job_id, s.status HAVING s.status <> 'DONE' OR count(e.seq) <> 1
"""
_HELD = """
    SELECT l.token FROM jobqueue.leases l JOIN jobqueue.worker_names n USING (worker_id)
    WHERE n.name = $1 AND l.running ORDER BY l.token
"""


async def kill_at_work(
    conn: asyncpg.Connection, program: Program, name: str, *, within_s: float
) -> None:
    """Kill the worker of this name while jobs are in its hands."""

    async def holds_still_with_work() -> bool:
        program.send(signal.SIGSTOP)
        # What it sent before it stopped has been done once nothing of it changes any more.
        first, second = [await conn.fetch(_HELD, name) for _ in range(2)]
        if first and first == second:
            return True
        program.send(signal.SIGCONT)
        return False

    await eventually(holds_still_with_work, within_s=within_s, what="a worker at work")
    await kill(program)


async def kill(program: Program) -> None:
    """End a program by SIGKILL."""
    program.send(signal.SIGKILL)
    assert await asyncio.to_thread(program.ended) == -signal.SIGKILL
