-- Leases of one worker that are older than $2 seconds, with what settling them needs. For
-- finding leases whose claim was cut off before its answer arrived.
-- $1 worker int · $2 age in seconds float8
SELECT l.id AS job, l.token, l.running, l.retries, l.crashes, l.handbacks, l.unhandled,
       j.max_retries, q.name AS queue, q.base_delay_s, q.max_delay_s, q.multiplier
FROM jobqueue.leases l
JOIN jobqueue.jobs j ON j.id = l.id
JOIN jobqueue.queues q ON q.queue_id = l.queue_id
WHERE l.worker_id = $1::int AND l.claimed_at < now() - make_interval(secs => $2::float8);
