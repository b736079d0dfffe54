-- Removes a worker that ended, unless another process has registered under its id. Its number keeps
-- its name for the events.
-- $1 worker int · $2 hostname, NULL: whoever it is text · $3 pid int
DELETE FROM jobqueue.workers
WHERE worker_id = $1::int AND ($2::text IS NULL OR hostname = $2::text AND pid = $3::int);
