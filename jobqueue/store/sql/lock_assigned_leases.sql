-- Those of these leases that one worker holds and has not started, with what settling them needs,
-- locked for this transaction. Waits for a start and takes no job that it started: the lock tests
-- the row anew. As a settle it locks rows by id.
-- $1 ids bigint[], $2 tokens bigint[] · $3 worker int
SELECT l.id AS job, l.token, l.running, l.retries, l.crashes, l.handbacks, l.unhandled,
       j.max_retries, q.name AS queue, q.base_delay_s, q.max_delay_s, q.multiplier
FROM (SELECT DISTINCT id, token FROM unnest($1::bigint[], $2::bigint[]) t (id, token)) i
JOIN jobqueue.leases l ON l.id = i.id AND l.token = i.token AND l.worker_id = $3::int
JOIN jobqueue.jobs j ON j.id = l.id
JOIN jobqueue.queues q ON q.queue_id = l.queue_id
WHERE NOT l.running
ORDER BY l.id
FOR UPDATE OF l;
