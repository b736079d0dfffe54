-- Removes workers that have been OFFLINE for long.
-- $1 seconds since the last beat float8
DELETE FROM jobqueue.workers
WHERE status = 'OFFLINE' AND last_beat_at < now() - make_interval(secs => $1::float8)
RETURNING worker_id;
