-- How many jobs of each queue wait for a time, and how many of them are PENDING: delayed, not
-- FAILED. Looks at $1 of them at most, of all queues together: when that many were found there may be
-- more.
-- $1 int
SELECT q.name AS queue, count(*) AS waiting, count(*) FILTER (WHERE NOT s.failed) AS delayed
FROM (SELECT o.queue_id, o.failed FROM jobqueue.scheduled o LIMIT $1::int) s
JOIN jobqueue.queues q ON q.queue_id = s.queue_id
GROUP BY q.queue_id, q.name;
