-- How far a consumer is behind: events that it has not passed (exact up to $2; beyond that, and where
-- its transaction ids mean nothing, by their ids), the age in seconds of the first of them, and how
-- many events are parked. No row: there is no such cursor. What it has passed of the open window is
-- not looked at: it may be millions.
-- Relies on job_events_xid and job_events_ids.
-- $1 name text · $2 count at most bigint
WITH cur AS MATERIALIZED (
    SELECT name, snapshot, least(since, now() - interval '1 day') AS since,
           last_eid, window_end, window_eid, window_last_eid, system_identifier
    FROM jobqueue.event_cursors WHERE name = $1::text
)
SELECT CASE WHEN p.events + n.events < $2::bigint
              AND (c.window_end IS NULL OR c.window_last_eid - c.window_eid <= $2)
              AND c.system_identifier = i.system_identifier
              AND pg_snapshot_xmax(c.snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
            THEN p.events + n.events
            ELSE greatest(p.events + n.events,
                          s.last_value - coalesce(c.window_eid, c.last_eid)) END AS events,
       coalesce(extract(epoch FROM clock_timestamp() - least(p.first, n.first)), 0)::float8
           AS oldest_age_s,
       (SELECT count(*) FROM jobqueue.parked_events) AS parked
FROM cur c, jobqueue.event_id_seq s, pg_control_system() i, LATERAL (  -- of the open window, by id
    SELECT count(*) AS events, min(e.at) AS first FROM jobqueue.job_events e
    WHERE c.window_end IS NOT NULL AND e.at >= c.since
      AND e.eid > c.window_eid AND e.eid <= least(c.window_last_eid, c.window_eid + $2)
      AND NOT pg_visible_in_snapshot(e.xid, c.snapshot)
      AND pg_visible_in_snapshot(e.xid, c.window_end)) p, LATERAL (  -- and after it
    SELECT count(*) AS events, min(o.at) AS first FROM (
        SELECT e.at FROM jobqueue.job_events e
        WHERE e.at >= c.since AND e.xid >= pg_snapshot_xmax(coalesce(c.window_end, c.snapshot))
          AND e.xid < pg_snapshot_xmax(pg_current_snapshot())  -- not of a restored dump
        UNION ALL
        SELECT e.at FROM pg_snapshot_xip(coalesce(c.window_end, c.snapshot)) x
        JOIN jobqueue.job_events e ON e.xid = x
        WHERE e.at >= c.since
        LIMIT $2) o) n;
