-- How far the clocks of workers that beat are from the database's, furthest first: milliseconds,
-- positive when the worker's is ahead. A worker that did not send its time is left out.
SELECT n.name AS worker_id, w.clock_skew_ms
FROM jobqueue.workers w JOIN jobqueue.worker_names n ON n.worker_id = w.worker_id
WHERE w.status <> 'OFFLINE' AND w.clock_skew_ms IS NOT NULL
ORDER BY abs(w.clock_skew_ms) DESC, n.name;
