-- Says that a worker lives; returns what an operator asked of it, or YIELD when the process that
-- $4 and $5 name is not the one that registered last. No row: register again.
-- An OFFLINE worker is back: DRAINING when $2, else ACTIVE.
-- The lock shows the row as it is, also where it waited for one that registers or removes it.
-- $1 worker int · $2 draining bool · $3 its clock, seconds since 1970, NULL: not told float8 ·
-- $4 hostname, NULL: not told text · $5 pid int
WITH found AS (
    SELECT worker_id, $4::text IS NULL OR hostname = $4::text AND pid = $5::int AS ours
    FROM jobqueue.workers
    WHERE worker_id = $1::int
    FOR NO KEY UPDATE
), beat AS (
    UPDATE jobqueue.workers w
    SET last_beat_at = clock_timestamp(),
        clock_skew_ms =
            round(($3::float8 - extract(epoch FROM clock_timestamp())) * 1000)::bigint,
        status = CASE WHEN $2::bool OR command <> 'NONE' THEN 'DRAINING' ELSE 'ACTIVE' END
    FROM found
    WHERE w.worker_id = found.worker_id AND found.ours
    RETURNING w.command
)
SELECT command FROM beat
UNION ALL
SELECT 'YIELD' FROM found WHERE NOT ours;
