-- How many jobs of each queue may be claimed now, counting up to $1 of each: so it costs the same
-- with ten million as with ten thousand. In the order of the index: a queue that has none, where
-- all are of another, must not read them all.
-- $1 int. Relies on ready_claim.
SELECT q.name AS queue,
       (SELECT count(*) FROM (SELECT FROM jobqueue.ready r WHERE r.queue_id = q.queue_id
                              ORDER BY r.priority, r.ready_at, r.id LIMIT $1::int) o) AS count
FROM jobqueue.queues q
WHERE q.deleted_at IS NULL;
