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
-- Planned once a connection (docs/adr/0012): each OFFSET 0 leaves the planner no other order of
-- the join than the one that looks up by key, whatever it believes of the sizes.
WITH c AS MATERIALIZED (
    SELECT x.ctid, p.untyped, p.ord, q.name, q.base_delay_s, q.max_delay_s, q.multiplier
    FROM unnest($1::text[], $2::smallint[], $3::int[], $4::bool[], $11::int[])
             WITH ORDINALITY AS p (queue, priority, quota, untyped, skip, ord),
         LATERAL (
             SELECT o.queue_id, o.name, o.base_delay_s, o.max_delay_s, o.multiplier
             FROM jobqueue.queues o
             WHERE o.name = p.queue AND o.deleted_at IS NULL AND NOT o.paused
               AND (o.max_running IS NULL OR $9::bool)
             OFFSET 0
         ) q,
         LATERAL (
             SELECT y.ctid
             FROM (
                 SELECT r.ctid
                 FROM jobqueue.ready r
                 WHERE r.queue_id = q.queue_id AND r.priority = p.priority
                   AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
                 ORDER BY r.ready_at, r.id
                 LIMIT p.quota + p.skip
                 FOR UPDATE SKIP LOCKED
             ) y
             -- Beside the LIMIT, an OFFSET would talk the planner out of the ordered index scan.
             OFFSET p.skip
         ) x
    LIMIT $5::int
), d AS (
    DELETE FROM jobqueue.ready r USING c WHERE r.ctid = c.ctid
    RETURNING r.id, r.queue_id, r.priority, r.ready_at, r.expires_at, r.seq, r.attempt, r.retries,
              r.crashes, r.handbacks, r.unhandled, c.untyped, c.ord, c.name, c.base_delay_s,
              c.max_delay_s, c.multiplier
), b AS MATERIALIZED (
    SELECT d.id, d.queue_id, d.priority, d.ready_at, d.expires_at, d.seq, d.attempt, d.retries,
           d.crashes, d.handbacks, d.unhandled, d.ord, d.name, d.base_delay_s, d.max_delay_s,
           d.multiplier, j.job_id, j.type, j.payload, j.max_retries, j.timeout_s, j.labels,
           j.trace_context, nextval('jobqueue.lease_token_seq') AS token, clock_timestamp() AS at,
           $8::bool AND CASE WHEN j.type IS NULL THEN d.untyped
                             ELSE j.type = ANY ($10::text[]) END AS running
    FROM d, LATERAL (
        SELECT j.job_id, j.type, j.payload, j.max_retries, j.timeout_s, j.labels, j.trace_context
        FROM jobqueue.jobs j WHERE j.id = d.id OFFSET 0) j
), l AS (
    INSERT INTO jobqueue.leases (id, token, ready_at, ttl_expires_at, claimed_at, started_at,
        expires_at, queue_id, seq, attempt, worker_id, priority, retries, crashes, handbacks,
        unhandled, running)
    SELECT id, token, ready_at, CASE WHEN NOT running THEN expires_at END, at,
           CASE WHEN running THEN at END, at + make_interval(secs => $7::float8), queue_id,
           seq + 1 + running::int, attempt + running::int, $6::int, priority, retries, crashes,
           CASE WHEN running THEN 0 ELSE handbacks END, CASE WHEN running THEN 0 ELSE unhandled END,
           running
    FROM b
), e AS (
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt,
        token, worker_id)
    SELECT b.id, b.queue_id, b.seq + k.n, k.was, k.became, k.why, b.attempt + b.running::int,
           b.token, $6::int
    FROM b CROSS JOIN (VALUES
        (1, 'PENDING'::jobqueue.job_state, 'ASSIGNED'::jobqueue.job_state,
         'CLAIMED'::jobqueue.move_reason),
        (2, 'ASSIGNED', 'RUNNING', 'STARTED')) k (n, was, became, why)
    WHERE k.n = 1 OR b.running
    ORDER BY b.id, k.n
)
SELECT id AS job, token, job_id, name AS queue, type, payload, priority, attempt + 1 AS attempt,
       running, max_retries, timeout_s, labels::text AS labels,
       trace_context::text AS trace_context, retries, crashes,
       CASE WHEN running THEN 0 ELSE handbacks END AS handbacks,
       CASE WHEN running THEN 0 ELSE unhandled END AS unhandled,
       base_delay_s, max_delay_s, multiplier, date_part('epoch', at - ready_at) AS waited_s
FROM b
ORDER BY ord, ready_at, id;
