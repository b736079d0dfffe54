-- Counts all jobs anew and sets the cursor to this statement's snapshot. For a cursor that is void;
-- totals that events would tell stay, unless more than that exists. In a transaction that holds the
-- locks of the cursor and of the depths already: this statement's snapshot must be younger than both.
-- What is visible now though its transaction is not is from another cluster (a restored dump), and
-- counted here: restored_eid keeps it from being counted once more when such an id comes to pass.
WITH counts AS (
    SELECT queue_id, 'PENDING'::jobqueue.job_state AS status, count(*) AS n
    FROM jobqueue.ready GROUP BY 1
    UNION ALL
    SELECT queue_id, CASE WHEN failed THEN 'FAILED' ELSE 'PENDING' END::jobqueue.job_state, count(*)
    FROM jobqueue.scheduled GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, CASE WHEN running THEN 'RUNNING' ELSE 'ASSIGNED' END::jobqueue.job_state,
           count(*)
    FROM jobqueue.leases GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, CASE WHEN dead THEN 'DEAD_LETTERED' ELSE 'DONE' END::jobqueue.job_state,
           count(*)
    FROM jobqueue.finished GROUP BY 1, 2
), summed AS (
    SELECT q.queue_id, s.status, coalesce(sum(c.n), 0) AS n
    FROM jobqueue.queues q
    CROSS JOIN unnest(enum_range(NULL::jobqueue.job_state)) s (status)
    LEFT JOIN counts c ON c.queue_id = q.queue_id AND c.status = s.status
    GROUP BY 1, 2
), d AS (
    INSERT INTO jobqueue.queue_depths AS q (queue_id, status, depth, entered)
    SELECT queue_id, status, n, n FROM summed ORDER BY queue_id, status
    ON CONFLICT (queue_id, status) DO UPDATE
    SET depth = excluded.depth, entered = greatest(q.entered, excluded.entered)
)
UPDATE jobqueue.event_cursors
SET snapshot = pg_current_snapshot(), since = clock_timestamp() - interval '1 day',
    xid = pg_current_xact_id(), system_identifier = s.system_identifier,
    updated_at = clock_timestamp(),
    last_eid = (SELECT last_value - (NOT is_called)::int FROM jobqueue.event_id_seq),
    restored_eid = greatest(restored_eid, (
        SELECT max(e.eid) FROM jobqueue.job_events e
        WHERE e.at >= least(now(), updated_at) - interval '1 day'  -- no since will be older
          AND e.xid >= pg_snapshot_xmin(pg_current_snapshot())
          AND NOT pg_visible_in_snapshot(e.xid, pg_current_snapshot())))
FROM pg_control_system() s
WHERE name = 'stats'
RETURNING 0::bigint AS events;
