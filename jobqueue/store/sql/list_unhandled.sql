-- Types of jobs that wait because no worker had a handler for them. Relies on
-- scheduled_unhandled.
SELECT q.name AS queue, j.type, count(*) AS count
FROM jobqueue.scheduled s
JOIN jobqueue.jobs j ON j.id = s.id
JOIN jobqueue.queues q ON q.queue_id = s.queue_id
WHERE s.unhandled > 0
GROUP BY q.name, j.type ORDER BY q.name, j.type;
