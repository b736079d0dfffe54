-- The newest stream of jobs to a worker. No row: the worker is not registered.
-- $1 worker int
SELECT w.streams FROM jobqueue.workers w WHERE w.worker_id = $1::int;
