"""A worker without work costs next to nothing (R-4.14), counted on the wire."""

import asyncio
from pathlib import Path

import asyncpg

from tests.support.facade import serving
from tests.support.programs import WorkerProgram
from tests.support.query_counter import QueryCounter
from tests.support.waiting import eventually

CALM_S, WATCHED_S = 5.0, 20.0
LAST_BEAT = "SELECT extract(epoch FROM last_beat_at)::float8 FROM jobqueue.workers"
NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database()
      AND application_name IN ('jq-worker', 'jq-settler', 'jq-keeper')
"""


async def test_an_idle_worker_sends_less_than_one_query_a_second(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    async with serving(database), QueryCounter(database) as counter:
        worker = WorkerProgram(counter.dsn, tmp_path)
        try:
            await asyncio.to_thread(worker.ready)
            begun = await _beat_after(conn, await conn.fetchval(NOW) + CALM_S)
            before = counter.queries
            ended = await _beat_after(conn, begun + WATCHED_S)
            asked = counter.queries - before
            assert 0 < asked < ended - begun
            assert await conn.fetchval(CONNECTIONS) <= 3
        finally:
            worker.kill()


async def _beat_after(conn: asyncpg.Connection, moment: float) -> float:
    """Return the time, by the database, of the worker's first beat after ``moment``."""

    async def beat() -> float | None:
        at: float | None = await conn.fetchval(LAST_BEAT)
        return at if at is not None and at >= moment else None

    return await eventually(beat, within_s=WATCHED_S + 30, what="a later beat") or 0.0
