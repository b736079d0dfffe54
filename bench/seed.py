"""Fills tables with many jobs by SQL: what matters is how many there are, not how they came."""

import asyncpg

from bench.systems import NOOP, QUEUE

_CHUNK = 50_000

# Priorities are spread evenly; each job has the event of its submission.
_JOBS = """
WITH j AS (
    INSERT INTO jobqueue.jobs (job_id, created_at, not_before, queue_id, max_retries, priority,
                               type, payload)
    SELECT gen_random_uuid(), clock_timestamp(), $4::timestamptz, q.queue_id, 3, n % 10, $2,
           decode(repeat('78', 100), 'hex')
    FROM jobqueue.queues q, generate_series(1, $3::int) n
    WHERE q.name = $1
    RETURNING id, queue_id, priority, created_at, not_before
), e AS (
    INSERT INTO jobqueue.job_events (job, queue_id, seq, to_status, reason, attempt)
    SELECT id, queue_id, 1, 'PENDING', 'SUBMITTED', 0 FROM j ORDER BY id
)
"""
_FINISHED = f"""{_JOBS}
INSERT INTO jobqueue.finished (id, started_at, finished_at, token, queue_id, seq, attempt, reason,
                               retries, dead)
SELECT id, created_at, created_at, id, queue_id, 4, 1, 'COMPLETED', 0, false FROM j
"""
_READY = f"""{_JOBS}
INSERT INTO jobqueue.ready (id, ready_at, queue_id, seq, attempt, reason, priority, retries,
                            crashes, handbacks, unhandled)
SELECT id, created_at, queue_id, 1, 0, 'SUBMITTED', priority, 0, 0, 0, 0 FROM j
"""
_SCHEDULED = f"""{_JOBS}
INSERT INTO jobqueue.scheduled (id, ready_at, due_at, queue_id, seq, attempt, reason, priority,
                                retries, crashes, handbacks, unhandled, failed)
SELECT id, not_before, not_before, queue_id, 1, 0, 'SUBMITTED', priority, 0, 0, 0, 0, false FROM j
"""
_TOMORROW = "SELECT now() + interval '1 day'"


async def add_finished(connection: asyncpg.Connection, count: int) -> None:
    """Add jobs that are DONE; of their events only the first is there."""
    await _add(connection, _FINISHED, count)


async def add_ready(connection: asyncpg.Connection, count: int) -> None:
    """Add jobs that wait to be claimed."""
    await _add(connection, _READY, count)


async def add_scheduled(connection: asyncpg.Connection, count: int) -> None:
    """Add jobs that are due tomorrow."""
    await _add(connection, _SCHEDULED, count, await connection.fetchval(_TOMORROW))


async def _add(
    connection: asyncpg.Connection, statement: str, count: int, due: object = None
) -> None:
    for begun in range(0, count, _CHUNK):
        chunk = min(_CHUNK, count - begun)
        await connection.execute(statement, QUEUE, NOOP, chunk, due, timeout=600)
