-- Age in seconds of the oldest transaction that keeps dead rows of our tables from being removed:
-- of a session, of a prepared transaction, or of a standby or replication slot. The last know only a
-- transaction id; their age is that of our first event since then. 0: there is none. Sessions that
-- our role may not look at are left out. Relies on job_events_xid.
WITH sessions AS (
    SELECT extract(epoch FROM clock_timestamp() - a.xact_start) AS age_s
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
      AND a.backend_type <> 'autovacuum worker'
), prepared AS (
    SELECT extract(epoch FROM clock_timestamp() - p.prepared) AS age_s
    FROM pg_prepared_xacts p WHERE p.database = current_database()
), held AS (
    SELECT age(s.xmin) AS transactions FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
    UNION ALL
    SELECT age(a.backend_xmin) FROM pg_stat_activity a
    WHERE a.backend_type = 'walsender' AND a.backend_xmin IS NOT NULL
), oldest AS MATERIALIZED (
    SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - max(transactions))::text::xid8
        AS xid
    FROM held
), standbys AS (
    SELECT extract(epoch FROM clock_timestamp() - first.at) AS age_s
    FROM oldest o, LATERAL (
        SELECT e.at FROM jobqueue.job_events e
        WHERE e.xid >= o.xid AND e.xid < pg_snapshot_xmax(pg_current_snapshot())
          AND e.eid + 0 > (SELECT c.restored_eid FROM jobqueue.event_cursors c WHERE c.name = 'stats')
        ORDER BY e.xid LIMIT 1
    ) first
    WHERE o.xid IS NOT NULL
)
SELECT coalesce(greatest((SELECT max(age_s) FROM sessions), (SELECT max(age_s) FROM prepared),
                         (SELECT max(age_s) FROM standbys)), 0)::float8 AS age_s;
