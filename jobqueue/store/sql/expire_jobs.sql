-- Dead-letters jobs whose TTL ended before they were ever started, ready or waiting. Returns how
-- many of each queue.
-- In the order of the index: where many are past their end, it must not look through all others.
-- Passes by what promote_jobs passes by.
-- $1 limit int, of each table. Relies on ready_expires and scheduled_expires.
WITH cr AS MATERIALIZED (
    SELECT r.ctid FROM jobqueue.ready r WHERE r.expires_at <= now() AND r.seq < 2147483647
    ORDER BY r.expires_at LIMIT $1::int FOR UPDATE SKIP LOCKED
), cs AS MATERIALIZED (
    SELECT s.ctid FROM jobqueue.scheduled s WHERE s.expires_at <= now() AND s.seq < 2147483647
    ORDER BY s.expires_at LIMIT $1::int FOR UPDATE SKIP LOCKED
), r AS (
    DELETE FROM jobqueue.ready r USING cr WHERE r.ctid = cr.ctid
    RETURNING r.id, r.queue_id, r.seq, r.attempt, r.retries,
              'PENDING'::jobqueue.job_state AS was
), s AS (
    DELETE FROM jobqueue.scheduled s USING cs WHERE s.ctid = cs.ctid
    RETURNING s.id, s.queue_id, s.seq, s.attempt, s.retries,
              CASE WHEN s.failed THEN 'FAILED' ELSE 'PENDING' END::jobqueue.job_state AS was
), u AS (
    SELECT id, queue_id, seq, attempt, retries, was FROM r
    UNION ALL SELECT id, queue_id, seq, attempt, retries, was FROM s
), f AS (
    INSERT INTO jobqueue.finished (id, finished_at, queue_id, seq, attempt, reason, retries, dead)
    SELECT id, clock_timestamp(), queue_id, seq + 1, attempt, 'TTL_EXPIRED', retries, true FROM u
), e AS (
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt)
    SELECT id, queue_id, seq + 1, was, 'DEAD_LETTERED', 'TTL_EXPIRED', attempt FROM u ORDER BY id
)
SELECT q.name AS queue, count(*) AS count
FROM u JOIN jobqueue.queues q ON q.queue_id = u.queue_id
GROUP BY q.name;
