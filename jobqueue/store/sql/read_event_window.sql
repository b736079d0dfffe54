-- All events of the open window of a cursor after one; for windows that are small. A row has events
-- that differ only in its arrays; rows come in the order of the sequences of jobs. They end with the
-- one that makes the sum of details exceed $4. No row: there is none, or the token is not the holder's
-- any more. The window may be the next holder's then, and begin before $3 with a job's earlier event.
-- Nobody is told of what no job is known of (it was forgotten, and a restored dump began anew).
-- $1 name text · $2 token bigint · $3 after this event bigint · $4 bytes bigint
WITH cur AS MATERIALIZED (
    SELECT snapshot, least(since, now() - interval '1 day') AS since, window_end
    FROM jobqueue.event_cursors
    WHERE name = $1::text AND token = $2::bigint
), w AS (
    SELECT x.* FROM cur, jobqueue.job_events x
    WHERE x.at >= cur.since AND x.xid >= pg_snapshot_xmax(cur.snapshot)
      AND pg_visible_in_snapshot(x.xid, cur.window_end)
    UNION ALL
    SELECT x.* FROM cur, pg_snapshot_xip(cur.snapshot) t, jobqueue.job_events x
    WHERE x.xid = t AND x.at >= cur.since AND pg_visible_in_snapshot(t, cur.window_end)
), e AS MATERIALIZED (
    SELECT w.*, coalesce(j.job_id, r.job_id) AS job_id,
           coalesce(j.trace_context, r.trace_context) AS trace_context,
           sum(coalesce(octet_length(w.detail), 0)) OVER (ORDER BY w.eid) AS bytes
    FROM w
    LEFT JOIN jobqueue.jobs j ON j.id = w.job
    LEFT JOIN LATERAL (  -- only where it is needed: none as a rule
        SELECT o.job_id, o.trace_context FROM jobqueue.removed_jobs o
        WHERE o.id = w.job AND j.id IS NULL OFFSET 0) r ON true
    WHERE w.eid > $3::bigint AND coalesce(j.job_id, r.job_id) IS NOT NULL
), g AS (
    SELECT e.queue_id, e.seq, e.from_status, e.to_status, e.reason, e.attempt, e.worker_id,
           array_agg(e.eid) AS event_ids, array_agg(e.job_id) AS job_ids,
           array_agg(e.at) AS ats, array_agg(e.detail) AS details,
           array_agg(e.trace_context ->> 'traceparent') AS traceparents
    FROM e
    WHERE e.bytes - coalesce(octet_length(e.detail), 0) <= $4::bigint
    GROUP BY e.queue_id, e.seq, e.from_status, e.to_status, e.reason, e.attempt, e.worker_id
)
SELECT q.name AS queue, g.seq AS sequence, g.from_status::text AS from_status,
       g.to_status::text AS to_status, g.reason::text AS reason, g.attempt, n.name AS worker_id,
       g.event_ids, g.job_ids, g.ats, g.details, g.traceparents
FROM g
JOIN jobqueue.queues q ON q.queue_id = g.queue_id
LEFT JOIN jobqueue.worker_names n ON n.worker_id = g.worker_id
ORDER BY g.seq;
