-- Events by id, in order: what a reader sees of the past, or of what became visible in a step that
-- is large. Relies on job_events_ids.
-- $1 after this event bigint · $2 up to this event bigint · $3 queue text, NULL: all
-- $4 not in this snapshot text · $5 since timestamptz · $6 but in this snapshot text
-- $7 all the same when it comes after this event bigint, NULL: no
SELECT e.eid AS event_id, coalesce(j.job_id, r.job_id) AS job_id, q.name AS queue,
       e.seq AS sequence, e.from_status::text AS from_status, e.to_status::text AS to_status, e.at,
       e.reason::text AS reason, e.attempt, n.name AS worker_id, e.detail,
       coalesce(j.trace_context, r.trace_context) ->> 'traceparent' AS traceparent
FROM jobqueue.job_events e
JOIN jobqueue.queues q ON q.queue_id = e.queue_id
LEFT JOIN jobqueue.jobs j ON j.id = e.job
LEFT JOIN LATERAL (  -- only where it is needed: none as a rule
    SELECT o.job_id, o.trace_context FROM jobqueue.removed_jobs o
    WHERE o.id = e.job AND j.id IS NULL OFFSET 0) r ON true
LEFT JOIN jobqueue.worker_names n ON n.worker_id = e.worker_id
WHERE e.eid > $1::bigint AND e.eid <= $2::bigint AND ($3::text IS NULL OR q.name = $3)
  AND (NOT pg_visible_in_snapshot(e.xid, $4::text::pg_snapshot) OR e.eid > $7::bigint)
  AND e.at >= $5::timestamptz
  AND (pg_visible_in_snapshot(e.xid, $6::text::pg_snapshot)
       OR (pg_snapshot_xmax($4::text::pg_snapshot) = '1'  -- the whole past, restored dumps too
           AND e.xid >= pg_snapshot_xmax(pg_current_snapshot())))
  AND coalesce(j.job_id, r.job_id) IS NOT NULL
ORDER BY e.eid;
