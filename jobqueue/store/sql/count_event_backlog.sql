-- How far a consumer is behind: events that it has not passed (exact up to $2, beyond that by
-- their ids), the age in seconds of the first of them, and how many events are parked. No row: there
-- is no such cursor.
-- $1 name text · $2 count at most bigint
SELECT CASE WHEN n.events < $2::bigint THEN n.events
            ELSE greatest(n.events, s.last_value - coalesce(c.window_eid, c.last_eid)) END AS events,
       coalesce(extract(epoch FROM clock_timestamp() - n.first), 0)::float8 AS oldest_age_s,
       (SELECT count(*) FROM jobqueue.parked_events) AS parked
FROM jobqueue.event_cursors c, jobqueue.event_id_seq s, LATERAL (
    SELECT count(*) AS events, min(o.at) AS first FROM (
        SELECT e.at FROM jobqueue.job_events e
        WHERE e.at >= c.since AND e.xid >= pg_snapshot_xmax(c.snapshot)
          AND (c.window_end IS NULL OR e.eid > c.window_eid
               OR NOT pg_visible_in_snapshot(e.xid, c.window_end))
        UNION ALL
        SELECT e.at FROM pg_snapshot_xip(c.snapshot) x JOIN jobqueue.job_events e ON e.xid = x
        WHERE e.at >= c.since
          AND (c.window_end IS NULL OR e.eid > c.window_eid
               OR NOT pg_visible_in_snapshot(e.xid, c.window_end))
        LIMIT $2::bigint) o) n
WHERE c.name = $1::text;
