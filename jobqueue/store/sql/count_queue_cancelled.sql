-- How many jobs of a deleted queue were cancelled since it was deleted, whoever did it. Dead ones
-- from before stay for ever and can be millions: those older than any that lived are passed by.
-- $1 queue_id int · $2 lowest id of what was live bigint. Relies on finished_dead.
SELECT count(*) AS cancelled
FROM jobqueue.queues q
JOIN jobqueue.finished f ON f.queue_id = q.queue_id AND f.dead AND f.id >= $2::bigint
WHERE q.queue_id = $1::int AND f.reason = 'CANCELLED' AND f.finished_at >= q.deleted_at;
