"""What must be true of a database whatever happened to it."""

from jobqueue.domain.state import JobStatus
from jobqueue.store.pool import Db
from jobqueue.store.queues import get_queue_stats

_PLACES = """
    SELECT id, queue_id, seq, 'PENDING' AS status FROM jobqueue.ready
    UNION ALL
    SELECT id, queue_id, seq, CASE WHEN failed THEN 'FAILED' ELSE 'PENDING' END
    FROM jobqueue.scheduled
    UNION ALL
    SELECT id, queue_id, seq, CASE WHEN running THEN 'RUNNING' ELSE 'ASSIGNED' END
    FROM jobqueue.leases
    UNION ALL
    SELECT id, queue_id, seq, CASE WHEN dead THEN 'DEAD_LETTERED' ELSE 'DONE' END
    FROM jobqueue.finished
"""
_MISPLACED = f"""
    SELECT coalesce(j.id, p.id) AS job, count(p.id) AS places
    FROM jobqueue.jobs j FULL JOIN ({_PLACES}) p ON p.id = j.id
    GROUP BY 1, j.id HAVING count(p.id) <> 1 OR j.id IS NULL
"""
_BROKEN = f"""
    WITH e AS (
        SELECT job, eid, seq, from_status, to_status,
               row_number() OVER w AS n, lag(to_status) OVER w AS before, lag(eid) OVER w AS older
        FROM jobqueue.job_event_log WINDOW w AS (PARTITION BY job ORDER BY seq)
    ), last AS (
        SELECT DISTINCT ON (job) job, seq, to_status FROM e ORDER BY job, seq DESC
    )
    SELECT job, 'chain' AS fault FROM e
    WHERE seq <> n OR from_status IS DISTINCT FROM before OR older >= eid
    UNION ALL
    SELECT p.id, 'last event' FROM ({_PLACES}) p LEFT JOIN last l ON l.job = p.id
    WHERE (p.seq, p.status) IS DISTINCT FROM (l.seq, l.to_status)
"""
_KEYS = """
    SELECT k.tenant, k.key, k.job_id AS named, j.job_id AS keyed
    FROM jobqueue.idempotency_keys k
    FULL JOIN (SELECT * FROM jobqueue.jobs WHERE idempotency_key IS NOT NULL) j
      ON (j.job_id, j.tenant, j.idempotency_key) = (k.job_id, k.tenant, k.key)
    WHERE k.job_id IS NULL OR j.job_id IS NULL
"""
_DEPTHS = f"""
    SELECT q.name, p.status, count(*) AS n
    FROM ({_PLACES}) p JOIN jobqueue.queues q USING (queue_id)
    WHERE q.deleted_at IS NULL GROUP BY 1, 2
"""


async def assert_sound(db: Db) -> None:
    """Every job is in one table, its events are one chain that ends there, and figures agree.

    A key and its job name each other.
    """
    assert await db.fetch(_MISPLACED) == [], "jobs in no table or in two"
    assert await db.fetch(_BROKEN) == [], "events that do not lead to where the job is"
    assert await db.fetch(_KEYS) == [], "keys without their job, or jobs without their key"
    assert await counted_depths(db) == await real_depths(db)


async def real_depths(db: Db) -> dict[tuple[str, JobStatus], int]:
    """Count the jobs of every queue by status, from the tables."""
    return {(r["name"], JobStatus(r["status"])): r["n"] for r in await db.fetch(_DEPTHS)}


async def counted_depths(db: Db) -> dict[tuple[str, JobStatus], int]:
    """Return what the figures of the queues say, without the zeros."""
    stats = await get_queue_stats(db, None, 3600.0)
    return {(s.queue, status): n for s in stats for status, n in s.depth.items() if n}
