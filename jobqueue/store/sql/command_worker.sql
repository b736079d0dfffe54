-- Asks a worker to drain or to shut down; it hears it with its next beat, which also
-- shows it as DRAINING: not before, because until then it claims. A shutdown is never weakened to
-- a drain. No row: no such worker.
-- $1 worker id text · $2 DRAIN or SHUTDOWN text
UPDATE jobqueue.workers w
SET command = CASE WHEN w.command = 'SHUTDOWN' THEN w.command ELSE $2::text END
FROM jobqueue.worker_names n
WHERE n.worker_id = w.worker_id AND n.name = $1::text
RETURNING w.worker_id;
