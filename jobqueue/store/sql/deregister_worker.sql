-- Removes a worker that ended, unless another process has registered under its id. Its number keeps
-- its name for the events, from now on. Locks the name first, as registering does.
-- $1 worker int · $2 hostname, NULL: whoever it is text · $3 pid int
WITH n AS (
    UPDATE jobqueue.worker_names SET seen_at = clock_timestamp() WHERE worker_id = $1::int
    RETURNING worker_id
)
DELETE FROM jobqueue.workers w
USING n
WHERE w.worker_id = n.worker_id AND ($2::text IS NULL OR w.hostname = $2::text AND w.pid = $3::int);
