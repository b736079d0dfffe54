-- Extends leases of one worker. Answers, one row each: renewed; busy (its settle, a cancel or a
-- handler's transaction holds the row: keep running, ask again); or lost. With the cancel flag.
-- Skips locked rows: one held row must not stop the renewals of all the others. A worker may ask for
-- two leases of one job: one that it lost unheard, and one that it claimed since.
-- $1 ids bigint[], $2 tokens bigint[] · $3 worker int · $4 lease seconds float8
WITH i AS (
    SELECT DISTINCT id, token FROM unnest($1::bigint[], $2::bigint[]) t (id, token)
), k AS MATERIALIZED (
    SELECT x.id, x.token
    FROM i, LATERAL (
        SELECT l.id, l.token FROM jobqueue.leases l
        WHERE l.id = i.id AND l.token = i.token AND l.worker_id = $3::int
        FOR NO KEY UPDATE SKIP LOCKED
    ) x
), u AS (
    UPDATE jobqueue.leases l
    SET expires_at = clock_timestamp() + make_interval(secs => $4::float8)
    FROM k WHERE l.id = k.id AND l.token = k.token
    RETURNING l.id, l.token
)
SELECT i.id AS job, i.token,
       CASE WHEN u.id IS NOT NULL THEN 'renewed' WHEN l.id IS NOT NULL THEN 'busy'
            ELSE 'lost' END AS state,
       coalesce(l.cancel_requested, false) AS cancel_requested
FROM i
LEFT JOIN u ON u.id = i.id AND u.token = i.token
LEFT JOIN jobqueue.leases l ON l.id = i.id AND l.token = i.token AND l.worker_id = $3::int;
