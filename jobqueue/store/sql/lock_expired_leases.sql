-- A page of expired leases, locked for this transaction, with what settling them needs. A row
-- that is being renewed or settled is skipped, and tested again after its lock.
-- $1 after this job bigint (keyset: a row that cannot be settled never stops the page) ·
-- $2 limit int. Scans leases: only the reaper may.
SELECT l.id AS job, l.token, l.running, l.retries, l.crashes, l.handbacks, l.unhandled,
       j.max_retries, q.base_delay_s, q.max_delay_s, q.multiplier, q.name AS queue,
       w.name AS worker_id,
       date_part('epoch', now()) - date_part('epoch', l.expires_at) AS overdue_s
FROM jobqueue.leases l
JOIN jobqueue.jobs j ON j.id = l.id
JOIN jobqueue.queues q ON q.queue_id = l.queue_id
LEFT JOIN jobqueue.worker_names w ON w.worker_id = l.worker_id
WHERE l.expires_at < now() AND l.id > $1::bigint
ORDER BY l.id
LIMIT $2::int
FOR UPDATE OF l SKIP LOCKED;
