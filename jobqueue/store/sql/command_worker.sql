-- Asks a worker to drain or to shut down; it hears it with its next beat. A shutdown is never
-- weakened to a drain. No row: no such worker.
-- $1 worker id text · $2 DRAIN or SHUTDOWN text
UPDATE jobqueue.workers w
SET command = CASE WHEN w.command = 'SHUTDOWN' THEN w.command ELSE $2::text END,
    status = CASE WHEN w.status = 'ACTIVE' THEN 'DRAINING' ELSE w.status END
FROM jobqueue.worker_names n
WHERE n.worker_id = w.worker_id AND n.name = $1::text
RETURNING w.worker_id;
