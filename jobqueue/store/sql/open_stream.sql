-- Notes that a stream of jobs is opened to a worker, which ends those before it on every server.
-- Answers which one it is, what the worker serves and how much it takes. No row: it must register.
-- $1 worker int
UPDATE jobqueue.workers w
SET streams = w.streams + 1
WHERE w.worker_id = $1::int
RETURNING w.streams AS stream, w.queues, w.types, w.concurrency, w.prefetch;
