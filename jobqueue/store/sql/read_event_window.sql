-- All events of the open window of a cursor, in order; for windows that are small.
-- $1 name text · $2 after this event bigint
WITH cur AS MATERIALIZED (
    SELECT snapshot, since, window_end FROM jobqueue.event_cursors WHERE name = $1::text
), e AS MATERIALIZED (
    SELECT x.* FROM cur, jobqueue.job_events x
    WHERE x.at >= cur.since AND x.xid >= pg_snapshot_xmax(cur.snapshot)
      AND pg_visible_in_snapshot(x.xid, cur.window_end)
    UNION ALL
    SELECT x.* FROM cur, pg_snapshot_xip(cur.snapshot) t, jobqueue.job_events x
    WHERE x.xid = t AND x.at >= cur.since AND pg_visible_in_snapshot(t, cur.window_end)
)
SELECT e.eid AS event_id, coalesce(j.job_id, r.job_id) AS job_id, q.name AS queue,
       e.seq AS sequence, e.from_status::text AS from_status, e.to_status::text AS to_status, e.at,
       e.reason::text AS reason, e.attempt, n.name AS worker_id, e.detail,
       coalesce(j.trace_context, r.trace_context) ->> 'traceparent' AS traceparent
FROM e
JOIN jobqueue.queues q ON q.queue_id = e.queue_id
LEFT JOIN jobqueue.jobs j ON j.id = e.job
LEFT JOIN jobqueue.removed_jobs r ON r.id = e.job
LEFT JOIN jobqueue.worker_names n ON n.worker_id = e.worker_id
WHERE e.eid > $2::bigint
ORDER BY e.eid;
