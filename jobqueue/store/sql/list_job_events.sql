-- A page of the transitions of one job in order, kept ones included. No row: none is left, or
-- there is no such job.
-- $1 job id uuid · $2 after this sequence int · $3 limit int
WITH j AS MATERIALIZED (
    SELECT id, job_id, created_at FROM jobqueue.jobs WHERE job_id = $1::uuid
), e AS (
    (SELECT x.eid, x.seq, x.from_status, x.to_status, x.at, x.reason, x.attempt, x.worker_id,
            x.detail, x.queue_id
     FROM j JOIN jobqueue.job_events x
         ON x.job = j.id AND x.at >= j.created_at - interval '1 hour' AND x.seq > $2::int
     ORDER BY x.seq LIMIT $3::int)
    UNION
    (SELECT x.eid, x.seq, x.from_status, x.to_status, x.at, x.reason, x.attempt, x.worker_id,
            x.detail, x.queue_id
     FROM j JOIN jobqueue.job_events_kept x ON x.job = j.id AND x.seq > $2
     ORDER BY x.seq LIMIT $3)
)
SELECT e.eid AS event_id, j.job_id, q.name AS queue, e.seq AS sequence,
       e.from_status::text AS from_status, e.to_status::text AS to_status, e.at,
       e.reason::text AS reason, e.attempt, w.name AS worker_id, e.detail
FROM e CROSS JOIN j
JOIN jobqueue.queues q ON q.queue_id = e.queue_id
LEFT JOIN jobqueue.worker_names w ON w.worker_id = e.worker_id
ORDER BY e.seq LIMIT $3;
