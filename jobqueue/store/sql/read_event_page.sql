-- Events of the open window of a cursor in a range of ids; for windows that are large. A row has
-- events that differ only in its arrays; rows come in the order of the sequences of jobs.
-- They end with the one that makes the sum of details exceed $5. No row: as in read_event_window.
-- The window of reseed_event_cursor has all that is visible, as transactions of another cluster (a
-- restored dump) may be yet to come, or come just now. Nobody is told of what no job is known of.
-- $1 name text · $2 token bigint · $3 after this event bigint · $4 up to this event bigint
-- $5 bytes bigint
SELECT q.name AS queue, g.seq AS sequence, g.from_status::text AS from_status,
       g.to_status::text AS to_status, g.reason::text AS reason, g.attempt, n.name AS worker_id,
       g.event_ids, g.job_ids, g.ats, g.details, g.traceparents
FROM (
    SELECT e.queue_id, e.seq, e.from_status, e.to_status, e.reason, e.attempt, e.worker_id,
           array_agg(e.eid) AS event_ids, array_agg(e.job_id) AS job_ids,
           array_agg(e.at) AS ats, array_agg(e.detail) AS details,
           array_agg(e.trace_context ->> 'traceparent') AS traceparents
    FROM (
        SELECT x.*, coalesce(j.job_id, r.job_id) AS job_id,
               coalesce(j.trace_context, r.trace_context) AS trace_context,
               sum(coalesce(octet_length(x.detail), 0)) OVER (ORDER BY x.eid) AS bytes
        FROM jobqueue.event_cursors c
        JOIN jobqueue.job_events x
            ON x.eid > $3::bigint AND x.eid <= $4::bigint
            AND x.at >= least(c.since, now() - interval '1 day')
            AND NOT pg_visible_in_snapshot(x.xid, c.snapshot)
            AND (pg_snapshot_xmax(c.snapshot) = '1' OR pg_visible_in_snapshot(x.xid, c.window_end))
        LEFT JOIN jobqueue.jobs j ON j.id = x.job
        LEFT JOIN LATERAL (  -- only where it is needed: none as a rule
            SELECT o.job_id, o.trace_context FROM jobqueue.removed_jobs o
            WHERE o.id = x.job AND j.id IS NULL OFFSET 0) r ON true
        WHERE c.name = $1::text AND c.token = $2::bigint
          AND coalesce(j.job_id, r.job_id) IS NOT NULL
    ) e
    WHERE e.bytes - coalesce(octet_length(e.detail), 0) <= $5::bigint
    GROUP BY e.queue_id, e.seq, e.from_status, e.to_status, e.reason, e.attempt, e.worker_id
) g
JOIN jobqueue.queues q ON q.queue_id = g.queue_id
LEFT JOIN jobqueue.worker_names n ON n.worker_id = g.worker_id
ORDER BY g.seq;
