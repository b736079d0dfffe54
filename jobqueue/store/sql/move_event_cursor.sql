-- Passes events of the open window up to one; at its last one the window is closed. No row: the
-- token is not the holder's any more.
-- $1 name text · $2 token bigint · $3 up to this event bigint
UPDATE jobqueue.event_cursors
SET snapshot = CASE WHEN $3::bigint < window_last_eid THEN snapshot ELSE window_end END,
    since = CASE WHEN $3 < window_last_eid THEN since ELSE window_since END,
    xid = CASE WHEN $3 < window_last_eid THEN xid ELSE window_xid END,
    updated_at = CASE WHEN $3 < window_last_eid THEN updated_at ELSE window_at END,
    window_end = CASE WHEN $3 < window_last_eid THEN window_end END,
    window_eid = $3, last_eid = greatest(last_eid, $3)
WHERE name = $1::text AND token = $2::bigint AND window_end IS NOT NULL
RETURNING token;
