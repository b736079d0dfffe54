-- Cancels jobs of deleted queues: whatever waits or is ASSIGNED is dead-lettered, whatever runs is
-- asked to stop. Skips held rows. Returns how many of each queue were cancelled, and asked.
-- Tombstones stay for ever, so one that was dealt with must cost nothing: waiting jobs are looked
-- for while the figures tell of any, and for five minutes after the deletion, because figures lag.
-- Passes by what promote_jobs passes by.
-- LATERAL: without such a queue ready is not read; nor are scheduled and leases, by each EXISTS.
-- scheduled has no index by queue: one scan is for all of them.
-- $1 limit int, of each table, and of each queue. Relies on ready_claim.
WITH q AS MATERIALIZED (
    SELECT o.queue_id,
           o.deleted_at > now() - interval '5 minutes'
           OR EXISTS (SELECT FROM jobqueue.queue_depths d
                      WHERE d.queue_id = o.queue_id AND d.status IN ('PENDING', 'FAILED')
                        AND d.depth > 0) AS waiting
    FROM jobqueue.queues o WHERE o.deleted_at IS NOT NULL
), cr AS MATERIALIZED (
    SELECT x.ctid FROM q, LATERAL (
        SELECT r.ctid FROM jobqueue.ready r
        WHERE r.queue_id = q.queue_id AND r.seq < 2147483647
        ORDER BY r.priority, r.ready_at, r.id  -- as the index is: it must not read all queues' jobs
        LIMIT $1::int FOR UPDATE SKIP LOCKED) x
    WHERE q.waiting LIMIT $1::int
), cs AS MATERIALIZED (
    SELECT s.ctid FROM jobqueue.scheduled s
    WHERE EXISTS (SELECT FROM q WHERE waiting)
      AND s.queue_id IN (SELECT queue_id FROM q WHERE waiting) AND s.seq < 2147483647
    LIMIT $1::int FOR UPDATE OF s SKIP LOCKED
), cl AS MATERIALIZED (
    SELECT l.id, l.token, l.running FROM jobqueue.leases l
    WHERE EXISTS (SELECT FROM q) AND l.queue_id IN (SELECT queue_id FROM q)
      AND NOT l.cancel_requested AND l.seq < 2147483647
    LIMIT $1::int FOR UPDATE SKIP LOCKED
), r AS (
    DELETE FROM jobqueue.ready r USING cr WHERE r.ctid = cr.ctid
    RETURNING r.id, r.queue_id, r.seq, r.attempt, r.retries,
              'PENDING'::jobqueue.job_state AS was, NULL::int AS worker_id
), s AS (
    DELETE FROM jobqueue.scheduled s USING cs WHERE s.ctid = cs.ctid
    RETURNING s.id, s.queue_id, s.seq, s.attempt, s.retries,
              CASE WHEN s.failed THEN 'FAILED' ELSE 'PENDING' END::jobqueue.job_state AS was,
              NULL::int AS worker_id
), l AS (
    DELETE FROM jobqueue.leases l USING cl
    WHERE EXISTS (SELECT FROM cl) AND l.id = cl.id AND l.token = cl.token AND NOT l.running
    RETURNING l.id, l.queue_id, l.seq, l.attempt, l.retries,
              'ASSIGNED'::jobqueue.job_state AS was, l.worker_id
), asked AS (
    UPDATE jobqueue.leases l SET cancel_requested = true FROM cl
    WHERE EXISTS (SELECT FROM cl) AND l.id = cl.id AND l.token = cl.token AND cl.running
    RETURNING l.queue_id
), u AS (
    SELECT id, queue_id, seq, attempt, retries, was, worker_id FROM r
    UNION ALL SELECT id, queue_id, seq, attempt, retries, was, worker_id FROM s
    UNION ALL SELECT id, queue_id, seq, attempt, retries, was, worker_id FROM l
), f AS (
    INSERT INTO jobqueue.finished (id, finished_at, queue_id, seq, attempt, worker_id, reason,
        retries, dead)
    SELECT id, clock_timestamp(), queue_id, seq + 1, attempt, worker_id, 'CANCELLED', retries, true
    FROM u
), e AS (
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt,
        worker_id)
    SELECT id, queue_id, seq + 1, was, 'DEAD_LETTERED', 'CANCELLED', attempt, worker_id
    FROM u ORDER BY id
)
SELECT q.name AS queue, count(*) FILTER (WHERE NOT m.asked) AS cancelled,
       count(*) FILTER (WHERE m.asked) AS asked
FROM (SELECT queue_id, false AS asked FROM u UNION ALL SELECT queue_id, true FROM asked) m
JOIN jobqueue.queues q ON q.queue_id = m.queue_id
GROUP BY q.name;
