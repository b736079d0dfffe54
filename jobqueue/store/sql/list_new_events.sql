-- What is visible now and was not in a snapshot, in order. For readers without a stored cursor.
-- Where transaction ids may have been issued anew since, what is new may look as if it had been
-- visible: then all that comes after an event is looked at again.
-- $1 snapshot text · $2 since timestamptz · $3 up to snapshot text · $4 queue text, NULL: all
-- $5 after this event bigint · $6 limit int · $7 all that comes after this event bigint, NULL: no
WITH e AS MATERIALIZED (
    SELECT x.* FROM jobqueue.job_events x
    WHERE x.at >= $2::timestamptz AND x.xid >= pg_snapshot_xmax($1::text::pg_snapshot)
      AND pg_visible_in_snapshot(x.xid, $3::text::pg_snapshot)
    UNION ALL
    SELECT x.* FROM pg_snapshot_xip($1::text::pg_snapshot) t JOIN jobqueue.job_events x ON x.xid = t
    WHERE x.at >= $2::timestamptz AND pg_visible_in_snapshot(t, $3::text::pg_snapshot)
    UNION ALL
    SELECT x.* FROM jobqueue.job_events x
    WHERE x.eid > $7::bigint AND x.at >= $2::timestamptz
      AND pg_visible_in_snapshot(x.xid, $1::text::pg_snapshot)
      AND pg_visible_in_snapshot(x.xid, $3::text::pg_snapshot)
)
SELECT e.eid AS event_id, coalesce(j.job_id, r.job_id) AS job_id, q.name AS queue,
       e.seq AS sequence, e.from_status::text AS from_status, e.to_status::text AS to_status, e.at,
       e.reason::text AS reason, e.attempt, n.name AS worker_id, e.detail,
       coalesce(j.trace_context, r.trace_context) ->> 'traceparent' AS traceparent
FROM e
JOIN jobqueue.queues q ON q.queue_id = e.queue_id
LEFT JOIN jobqueue.jobs j ON j.id = e.job
LEFT JOIN LATERAL (  -- only where it is needed: none as a rule
    SELECT o.job_id, o.trace_context FROM jobqueue.removed_jobs o
    WHERE o.id = e.job AND j.id IS NULL OFFSET 0) r ON true
LEFT JOIN jobqueue.worker_names n ON n.worker_id = e.worker_id
WHERE e.eid > $5::bigint AND ($4::text IS NULL OR q.name = $4)
  AND coalesce(j.job_id, r.job_id) IS NOT NULL
ORDER BY e.eid LIMIT $6::int;
