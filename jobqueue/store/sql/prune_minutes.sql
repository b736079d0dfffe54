-- Forgets per-minute figures older than $1 seconds.
-- $1 seconds float8
DELETE FROM jobqueue.queue_minutes WHERE minute < now() - make_interval(secs => $1::float8)
RETURNING queue_id;
