-- Begins anew by event id, with an overlap, where a cursor's transaction ids mean nothing: a window
-- of all that is there after it. Events repeat, none is missed.
-- $1 name text · $2 token bigint · $3 overlap in events bigint
UPDATE jobqueue.event_cursors c
SET snapshot = '1:1:', window_end = pg_current_snapshot(), window_since = c.since,
    window_xid = pg_current_xact_id(), window_at = clock_timestamp(),
    window_eid = greatest(c.last_eid - $3::bigint, 0),
    window_last_eid = (SELECT last_value FROM jobqueue.event_id_seq),
    system_identifier = s.system_identifier
FROM pg_control_system() s
WHERE c.name = $1::text AND c.token = $2::bigint
RETURNING c.name;
