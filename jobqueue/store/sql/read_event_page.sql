-- Events of the open window of a cursor in a range of ids, in order; for windows that are large.
-- They end with the one that makes the sum of details exceed $4.
-- What is visible though its transaction is yet to come is from another cluster (a restored dump).
-- $1 name text · $2 after this event bigint · $3 up to this event bigint · $4 bytes bigint
SELECT e.eid AS event_id, coalesce(j.job_id, r.job_id) AS job_id, e.at, e.detail,
       coalesce(j.trace_context, r.trace_context) ->> 'traceparent' AS traceparent,
       q.name AS queue, e.seq AS sequence, e.from_status::text AS from_status,
       e.to_status::text AS to_status, e.reason::text AS reason, e.attempt, n.name AS worker_id
FROM (
    SELECT x.*, sum(coalesce(octet_length(x.detail), 0)) OVER (ORDER BY x.eid) AS bytes
    FROM jobqueue.event_cursors c
    JOIN jobqueue.job_events x
        ON x.eid > $2::bigint AND x.eid <= $3::bigint AND x.at >= c.since
        AND NOT pg_visible_in_snapshot(x.xid, c.snapshot)
        AND (pg_visible_in_snapshot(x.xid, c.window_end)
             OR x.xid >= pg_snapshot_xmax(pg_current_snapshot()))
    WHERE c.name = $1::text
) e
JOIN jobqueue.queues q ON q.queue_id = e.queue_id
LEFT JOIN jobqueue.jobs j ON j.id = e.job
LEFT JOIN jobqueue.removed_jobs r ON r.id = e.job
LEFT JOIN jobqueue.worker_names n ON n.worker_id = e.worker_id
WHERE e.bytes - coalesce(octet_length(e.detail), 0) <= $4::bigint
ORDER BY e.eid;
