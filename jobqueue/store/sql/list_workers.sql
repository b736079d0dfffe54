-- All registered workers with the leases they hold.
WITH held AS (
    SELECT worker_id, count(*) AS running FROM jobqueue.leases GROUP BY worker_id
)
SELECT n.name AS worker_id, w.hostname, w.pid, w.queues, w.types, w.concurrency, w.mode,
       w.version, w.status, coalesce(h.running, 0)::int AS running,
       jobqueue.in_calendar(w.started_at) AS started_at,
       jobqueue.in_calendar(w.last_beat_at) AS last_beat_at, w.clock_skew_ms
FROM jobqueue.workers w
JOIN jobqueue.worker_names n ON n.worker_id = w.worker_id
LEFT JOIN held h ON h.worker_id = w.worker_id
ORDER BY n.name;
