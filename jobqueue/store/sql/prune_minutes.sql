-- Forgets per-minute figures older than $1 seconds; returns how many.
-- $1 seconds float8
WITH gone AS (
    DELETE FROM jobqueue.queue_minutes WHERE minute < now() - make_interval(secs => $1::float8)
    RETURNING 1
)
SELECT count(*) FROM gone;
