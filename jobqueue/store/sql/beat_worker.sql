-- Says that a worker lives; returns what an operator asked of it. No row: register again.
-- An OFFLINE worker is back: DRAINING when $2, else ACTIVE.
-- $1 worker int · $2 draining bool
UPDATE jobqueue.workers
SET last_beat_at = clock_timestamp(),
    status = CASE WHEN $2::bool OR command <> 'NONE' THEN 'DRAINING' ELSE 'ACTIVE' END
WHERE worker_id = $1::int
RETURNING command;
