-- How many jobs wait for a time by the name of their queue, and how many of them are PENDING:
-- delayed, not FAILED. Looks at $1 of them at most, of all queues together: when that many were found
-- there may be more. A deleted queue has jobs until they are cancelled, and a live one may have its
-- name: they are looked at, and not delayed.
-- $1 int
SELECT q.name AS queue, count(*) AS waiting,
       count(*) FILTER (WHERE NOT s.failed AND q.deleted_at IS NULL) AS delayed
FROM (SELECT o.queue_id, o.failed FROM jobqueue.scheduled o LIMIT $1::int) s
JOIN jobqueue.queues q ON q.queue_id = s.queue_id
GROUP BY q.name;
