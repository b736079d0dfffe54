-- ASSIGNED→RUNNING for prefetched jobs, with a fresh lease; the TTL no longer applies after it.
-- One whose TTL is over is dead-lettered instead. Answers started, expired or lost, one row each;
-- started also for one that was started by an earlier try whose answer was lost (not fresh).
-- waited_s is how long a job that was started now had been ready.
-- = ANY (ARRAY[…]) as in complete_leases.
-- Waits for rows that its own worker's renewal holds; it can close no cycle, because one
-- worker's starts and settles never name the same job.
-- $1 ids bigint[], $2 tokens bigint[] · $3 worker int · $4 lease seconds float8
WITH i AS (
    SELECT DISTINCT id, token FROM unnest($1::bigint[], $2::bigint[]) t (id, token)
), k AS MATERIALIZED (
    SELECT l.id, l.token, l.ttl_expires_at <= clock_timestamp() AS expired
    FROM i JOIN jobqueue.leases l ON l.id = ANY (ARRAY[i.id]) AND l.token = i.token
    WHERE l.worker_id = $3::int AND NOT l.running
    ORDER BY i.id
    FOR NO KEY UPDATE OF l
), u AS (
    UPDATE jobqueue.leases l
    SET running = true, started_at = clock_timestamp(), ttl_expires_at = NULL, handbacks = 0,
        unhandled = 0, attempt = l.attempt + 1, seq = l.seq + 1,
        expires_at = clock_timestamp() + make_interval(secs => $4::float8)
    FROM k
    WHERE l.id = ANY (ARRAY[k.id]) AND l.token = k.token AND k.expired IS NOT TRUE
    RETURNING l.id, l.token, l.queue_id, l.seq, l.attempt, l.worker_id,
              date_part('epoch', l.started_at - l.ready_at) AS waited_s
), x AS (
    DELETE FROM jobqueue.leases l USING k
    WHERE l.id = ANY (ARRAY[k.id]) AND l.token = k.token AND k.expired
    RETURNING l.id, l.token, l.queue_id, l.seq, l.attempt, l.worker_id, l.retries
), f AS (
    INSERT INTO jobqueue.finished (id, finished_at, token, queue_id, seq, attempt, worker_id,
        reason, retries, dead)
    SELECT id, clock_timestamp(), token, queue_id, seq + 2, attempt, worker_id, 'TTL_EXPIRED',
           retries, true
    FROM x
), e AS (
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt,
        token, worker_id)
    SELECT m.id, m.queue_id, m.seq, m.was, m.became, m.why, m.attempt, m.token, m.worker_id
    FROM (
        SELECT id, queue_id, seq, 'ASSIGNED'::jobqueue.job_state AS was,
               'RUNNING'::jobqueue.job_state AS became, 'STARTED'::jobqueue.move_reason AS why,
               attempt, token, worker_id
        FROM u
        UNION ALL
        SELECT x.id, x.queue_id, x.seq + n.k, n.was, n.became, 'TTL_EXPIRED', x.attempt, x.token,
               x.worker_id
        FROM x CROSS JOIN (VALUES
            (1, 'ASSIGNED'::jobqueue.job_state, 'FAILED'::jobqueue.job_state),
            (2, 'FAILED', 'DEAD_LETTERED')) n (k, was, became)
    ) m
    ORDER BY m.id, m.seq
)
SELECT i.id AS job, i.token,
       CASE WHEN u.id IS NOT NULL THEN 'started' WHEN x.id IS NOT NULL THEN 'expired'
            WHEN y.id IS NOT NULL THEN 'started' ELSE 'lost' END AS state,
       u.id IS NOT NULL OR x.id IS NOT NULL AS fresh, u.waited_s,
       (SELECT q.name FROM jobqueue.queues q
        WHERE q.queue_id = coalesce(u.queue_id, x.queue_id, y.queue_id)) AS queue
FROM i LEFT JOIN u ON u.id = i.id LEFT JOIN x ON x.id = i.id
LEFT JOIN jobqueue.leases y ON y.id = ANY (ARRAY[i.id]) AND y.token = i.token AND y.worker_id = $3::int
    AND y.running;
