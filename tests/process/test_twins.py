"""Two processes under one worker id: the later one stays, the earlier one makes room (R-1.3)."""

import asyncio
from pathlib import Path

import asyncpg

from tests.support.programs import WorkerProgram
from tests.support.waiting import eventually

TWIN = ("--worker-id", "twin")
BEATS = {"worker_heartbeat_interval_s": 0.5}


async def test_the_earlier_of_two_workers_of_one_id_ends_and_says_why(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    async def registered() -> int | None:
        pid: int | None = await conn.fetchval("SELECT pid FROM jobqueue.workers")
        return pid

    first = WorkerProgram(database, tmp_path, *TWIN, **BEATS)
    second = None
    try:
        await asyncio.to_thread(first.ready)
        assert await registered() == first.process.pid
        second = WorkerProgram(database, tmp_path, *TWIN, **BEATS)
        await asyncio.to_thread(second.ready)
        assert await asyncio.to_thread(first.ended) == 1
        (told,) = (line for line in first.lines() if line["message"] == "replaced")
        assert told["level"] == "error"
        assert told["detail"] == "another process has registered under this worker id"
        assert await registered() == second.process.pid
        before = await conn.fetchval("SELECT last_beat_at FROM jobqueue.workers")

        async def beats() -> bool:
            last = await conn.fetchval("SELECT last_beat_at FROM jobqueue.workers")
            return bool(last > before)

        await eventually(beats, within_s=30, what="a beat of the one that stayed")
        assert second.process.poll() is None
    finally:
        first.kill()
        if second is not None:
            second.kill()
