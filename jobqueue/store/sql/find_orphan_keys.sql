-- Walks the idempotency keys from ($1, $2), at most $3 a call: how many the page has, where it
-- ends, and the ids of jobs that keys name and that are not there, or have another key, at most $4,
-- with the number of all in orphans. Without keys after the start: 0 keys.
-- $1 after this tenant text · $2 and key text · $3 keys int · $4 how many int
WITH page AS MATERIALIZED (
    SELECT k.tenant, k.key, k.job_id FROM jobqueue.idempotency_keys k
    WHERE (k.tenant, k.key) > ($1::text COLLATE "C", $2::text COLLATE "C")
    ORDER BY k.tenant, k.key LIMIT $3::int
), lost AS MATERIALIZED (
    -- LATERAL with a LIMIT: by the index, whatever the planner thinks of reading jobs whole.
    SELECT p.job_id FROM page p
    LEFT JOIN LATERAL (SELECT o.id FROM jobqueue.jobs o
                       WHERE o.job_id = p.job_id AND o.tenant = p.tenant
                         AND o.idempotency_key = p.key LIMIT 1) j ON true
    WHERE j.id IS NULL
), ending AS (
    SELECT p.tenant, p.key FROM page p ORDER BY p.tenant DESC, p.key DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page) AS keys, (SELECT e.tenant FROM ending e) AS tenant,
       (SELECT e.key FROM ending e) AS key, (SELECT count(*) FROM lost) AS orphans,
       ARRAY(SELECT l.job_id FROM lost l ORDER BY l.job_id LIMIT $4::int) AS job_ids;
