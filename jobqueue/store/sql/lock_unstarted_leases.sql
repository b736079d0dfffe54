-- A page of jobs that are ASSIGNED for longer than $3 seconds, locked for this transaction.
-- Their leases may be renewed all the while, so this looks at claimed_at.
-- $1 after this job bigint · $2 limit int · $3 timeout in seconds float8
SELECT l.id AS job, l.token, l.running, l.retries, l.crashes, l.handbacks, l.unhandled,
       j.max_retries, q.base_delay_s, q.max_delay_s, q.multiplier, q.name AS queue,
       w.name AS worker_id,
       date_part('epoch', now()) - date_part('epoch', l.claimed_at) - $3::float8 AS overdue_s
FROM jobqueue.leases l
JOIN jobqueue.jobs j ON j.id = l.id
JOIN jobqueue.queues q ON q.queue_id = l.queue_id
LEFT JOIN jobqueue.worker_names w ON w.worker_id = l.worker_id
WHERE NOT l.running AND l.claimed_at < now() - make_interval(secs => $3::float8)
  AND l.id > $1::bigint
ORDER BY l.id
LIMIT $2::int
FOR UPDATE OF l SKIP LOCKED;
