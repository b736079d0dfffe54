-- Claims at most $5 jobs: visits the probes in their order and takes the oldest ready jobs of
-- each, up to its quota. Writes lease and events in the same statement and returns the bodies,
-- in the order in which they should run. Locks exactly the rows it claims.
-- A paused, deleted or unknown queue gives nothing; one with max_running only when $9.
-- A job that nobody here can run becomes ASSIGNED whatever $8 says; its caller hands it back.
-- $1 queue names text[], $2 priorities int2[], $3 quotas int[], $4 has a handler for jobs
-- without a type bool[] (one probe each) · $5 how many int · $6 worker int · $7 lease seconds
-- float8 · $8 start at once bool · $9 limited queues too bool · $10 types it can run text[] ·
-- $11 how many an earlier probe of the same queue and priority may have taken int[]: our own
-- locks do not hide a row from us, so a second visit would find the same jobs again
-- Relies on ready_claim (queue_id, priority, ready_at, id). ctid is safe: no row of ready is
-- ever updated. The outer LIMIT is lazy, so no probe locks more than is still wanted.
WITH c AS MATERIALIZED (
    SELECT x.ctid, q.untyped, q.ord
    FROM unnest($1::text[], $2::smallint[], $3::int[], $4::bool[], $11::int[])
             WITH ORDINALITY AS q (queue, priority, quota, untyped, skip, ord),
         LATERAL (
             SELECT y.ctid
             FROM (
                 SELECT r.ctid
                 FROM jobqueue.ready r
                 WHERE r.queue_id = (SELECT o.queue_id FROM jobqueue.queues o
                                     WHERE o.name = q.queue AND o.deleted_at IS NULL
                                       AND NOT o.paused
                                       AND (o.max_running IS NULL OR $9::bool))
                   AND r.priority = q.priority
                   AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
                 ORDER BY r.ready_at, r.id
                 LIMIT q.quota + q.skip
                 FOR UPDATE SKIP LOCKED
             ) y
             -- Beside the LIMIT, an OFFSET would talk the planner out of the ordered index scan.
             OFFSET q.skip
         ) x
    LIMIT $5::int
), d AS (
    DELETE FROM jobqueue.ready r USING c WHERE r.ctid = c.ctid
    RETURNING r.id, r.queue_id, r.priority, r.ready_at, r.expires_at, r.seq, r.attempt, r.retries,
              r.crashes, r.handbacks, r.unhandled, c.untyped, c.ord
), b AS (
    SELECT d.*, j.job_id, j.type, j.payload, j.max_retries, j.timeout_s, j.labels, j.trace_context,
           $8::bool AND CASE WHEN j.type IS NULL THEN d.untyped
                             ELSE j.type = ANY ($10::text[]) END AS running
    FROM d JOIN jobqueue.jobs j ON j.id = d.id
), l AS (
    INSERT INTO jobqueue.leases (id, token, ready_at, ttl_expires_at, claimed_at, started_at,
        expires_at, queue_id, seq, attempt, worker_id, priority, retries, crashes, handbacks,
        unhandled, running)
    SELECT b.id, nextval('jobqueue.lease_token_seq'), b.ready_at,
           CASE WHEN NOT b.running THEN b.expires_at END, clock_timestamp(),
           CASE WHEN b.running THEN clock_timestamp() END,
           clock_timestamp() + make_interval(secs => $7::float8), b.queue_id,
           b.seq + 1 + b.running::int, b.attempt + b.running::int, $6::int, b.priority, b.retries,
           b.crashes, CASE WHEN b.running THEN 0 ELSE b.handbacks END,
           CASE WHEN b.running THEN 0 ELSE b.unhandled END, b.running
    FROM b
    RETURNING id, token, attempt, running, handbacks, unhandled
), e AS (
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt,
        token, worker_id)
    SELECT b.id, b.queue_id, b.seq + k.n, k.was, k.became, k.why, l.attempt, l.token, $6::int
    FROM b JOIN l ON l.id = b.id
    CROSS JOIN (VALUES
        (1, 'PENDING'::jobqueue.job_state, 'ASSIGNED'::jobqueue.job_state,
         'CLAIMED'::jobqueue.move_reason),
        (2, 'ASSIGNED', 'RUNNING', 'STARTED')) k (n, was, became, why)
    WHERE k.n = 1 OR l.running
    ORDER BY b.id, k.n
)
SELECT l.id AS job, l.token, b.job_id, q.name AS queue, b.type, b.payload, b.priority,
       b.attempt + 1 AS attempt, l.running, b.max_retries, b.timeout_s, b.labels::text AS labels,
       b.trace_context::text AS trace_context, b.retries, b.crashes, l.handbacks, l.unhandled,
       q.base_delay_s, q.max_delay_s, q.multiplier,
       extract(epoch FROM clock_timestamp() - b.ready_at)::float8 AS waited_s
FROM l JOIN b ON b.id = l.id JOIN jobqueue.queues q ON q.queue_id = b.queue_id
ORDER BY b.ord, b.ready_at, b.id;
