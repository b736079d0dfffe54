-- How far each consumer of events is behind: the age in seconds of the first event that it has
-- not passed (NULL: it has passed all), whether its cursor is from another cluster, and whether
-- nobody holds a cursor that servers hold in turn.
-- Relies on job_events_xid.
SELECT c.name,
       c.system_identifier <> s.system_identifier
           OR pg_snapshot_xmax(c.snapshot) > pg_snapshot_xmax(pg_current_snapshot()) AS void,
       c.expires_at IS NOT NULL AND c.expires_at <= clock_timestamp() AS idle,
       extract(epoch FROM clock_timestamp() - first.at)::float8 AS behind_s
FROM jobqueue.event_cursors c
CROSS JOIN pg_control_system() s
LEFT JOIN LATERAL (
    SELECT e.at FROM jobqueue.job_events e
    WHERE e.at >= least(c.since, now() - interval '1 day')
      AND e.xid >= pg_snapshot_xmax(c.snapshot)
      AND e.xid < pg_snapshot_xmax(pg_current_snapshot())  -- not of a restored dump
      AND e.eid + 0 > c.restored_eid
    ORDER BY e.xid LIMIT 1
) first ON true
ORDER BY c.name;
