-- Shows workers without a beat as OFFLINE. Display only: nothing is taken back for it.
-- $1 heartbeat timeout in seconds float8
UPDATE jobqueue.workers SET status = 'OFFLINE'
WHERE status <> 'OFFLINE' AND last_beat_at < now() - make_interval(secs => $1::float8)
RETURNING worker_id;
