-- Says that a worker lives; returns what an operator asked of it, or YIELD when the process that
-- $4 and $5 name is not the one that registered last. No row: register again.
-- An OFFLINE worker is back: DRAINING when $2, else ACTIVE.
-- $1 worker int · $2 draining bool · $3 its clock, seconds since 1970, NULL: not told float8 ·
-- $4 hostname, NULL: not told text · $5 pid int
WITH beat AS (
    UPDATE jobqueue.workers
    SET last_beat_at = clock_timestamp(),
        clock_skew_ms =
            round(($3::float8 - extract(epoch FROM clock_timestamp())) * 1000)::bigint,
        status = CASE WHEN $2::bool OR command <> 'NONE' THEN 'DRAINING' ELSE 'ACTIVE' END
    WHERE worker_id = $1::int AND ($4::text IS NULL OR hostname = $4::text AND pid = $5::int)
    RETURNING command
)
SELECT command FROM beat
UNION ALL
SELECT 'YIELD' FROM jobqueue.workers WHERE worker_id = $1::int AND NOT EXISTS (SELECT FROM beat);
