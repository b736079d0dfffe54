-- Begins anew by event id, with an overlap, where a cursor's transaction ids mean nothing: a window
-- of all that is there after it, and after what was still open when the cursor was there: that may
-- have ids far lower. Events repeat, none is missed.
-- $1 name text · $2 token bigint · $3 overlap in events bigint
UPDATE jobqueue.event_cursors c
SET snapshot = '1:1:', window_end = pg_current_snapshot(), since = n.since, window_since = n.since,
    window_xid = pg_current_xact_id(), window_at = clock_timestamp(),
    window_eid = least(greatest(c.last_eid - $3::bigint, 0), (
        SELECT min(e.eid) - 1
        FROM (SELECT pg_snapshot_xip(c.snapshot) UNION ALL
              SELECT pg_snapshot_xip(c.window_end)) open (xid)
        JOIN jobqueue.job_events e ON e.xid = open.xid
        WHERE e.at >= c.since)),
    window_last_eid = (SELECT last_value - (NOT is_called)::int FROM jobqueue.event_id_seq),
    system_identifier = s.system_identifier
FROM pg_control_system() s, LATERAL (  -- this clock may be behind that of the old cluster
    SELECT least(o.since, clock_timestamp() - interval '1 day') AS since
    FROM jobqueue.event_cursors o WHERE o.name = $1::text) n
WHERE c.name = $1::text AND c.token = $2::bigint
RETURNING c.name;
