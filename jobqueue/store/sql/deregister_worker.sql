-- Removes a worker that ended. Its number keeps its name for the events.
-- $1 worker int
DELETE FROM jobqueue.workers WHERE worker_id = $1::int;
