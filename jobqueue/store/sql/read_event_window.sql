-- All events of the open window of a cursor, in order; for windows that are small. They end with the
-- one that makes the sum of details exceed $3.
-- $1 name text · $2 after this event bigint · $3 bytes bigint
WITH cur AS MATERIALIZED (
    SELECT snapshot, since, window_end FROM jobqueue.event_cursors WHERE name = $1::text
), w AS (
    SELECT x.* FROM cur, jobqueue.job_events x
    WHERE x.at >= cur.since AND x.xid >= pg_snapshot_xmax(cur.snapshot)
      AND pg_visible_in_snapshot(x.xid, cur.window_end)
    UNION ALL
    SELECT x.* FROM cur, pg_snapshot_xip(cur.snapshot) t, jobqueue.job_events x
    WHERE x.xid = t AND x.at >= cur.since AND pg_visible_in_snapshot(t, cur.window_end)
), e AS MATERIALIZED (
    SELECT w.*, sum(coalesce(octet_length(w.detail), 0)) OVER (ORDER BY w.eid) AS bytes
    FROM w WHERE w.eid > $2::bigint
)
SELECT e.eid AS event_id, coalesce(j.job_id, r.job_id) AS job_id, e.at, e.detail,
       coalesce(j.trace_context, r.trace_context) ->> 'traceparent' AS traceparent,
       q.name AS queue, e.seq AS sequence, e.from_status::text AS from_status,
       e.to_status::text AS to_status, e.reason::text AS reason, e.attempt, n.name AS worker_id
FROM e
JOIN jobqueue.queues q ON q.queue_id = e.queue_id
LEFT JOIN jobqueue.jobs j ON j.id = e.job
LEFT JOIN jobqueue.removed_jobs r ON r.id = e.job
LEFT JOIN jobqueue.worker_names n ON n.worker_id = e.worker_id
WHERE e.bytes - coalesce(octet_length(e.detail), 0) <= $3::bigint
ORDER BY e.eid;
