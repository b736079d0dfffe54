-- One registered worker: what it serves and how much it takes. No row: it must register.
-- $1 worker int
SELECT w.queues, w.types, w.concurrency, w.prefetch
FROM jobqueue.workers w
WHERE w.worker_id = $1::int;
