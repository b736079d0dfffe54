-- Locks the row of a queue with max_running, so that one claimer at a time counts and claims.
-- Counting must be a statement of its own after this: a snapshot taken before the lock is stale.
-- $1 queue name text
SELECT q.max_running
FROM jobqueue.queues q
WHERE q.name = $1::text AND q.deleted_at IS NULL AND NOT q.paused AND q.max_running IS NOT NULL
FOR NO KEY UPDATE;
