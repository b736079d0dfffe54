-- How many jobs of a queue are ASSIGNED or RUNNING. Only for queues with max_running.
-- $1 queue name text
SELECT count(*) AS running
FROM jobqueue.leases l JOIN jobqueue.queues q ON q.queue_id = l.queue_id
WHERE q.name = $1::text AND q.deleted_at IS NULL;
