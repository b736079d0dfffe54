-- Freezes the end of the next window of a cursor, unless one is open, and answers what is open. No
-- row: nothing is new, or the token is not the holder's any more. An empty window moves the cursor
-- only once a minute, so that a quiet system writes nothing. For the rule of since see roll_stats;
-- one of a clock that was days ahead does not count, here and wherever events are looked for.
-- $1 name text · $2 token bigint
WITH cur AS MATERIALIZED (
    SELECT name, snapshot, least(since, now() - interval '1 day') AS since,
           xid, updated_at, window_end, window_eid, window_last_eid
    FROM jobqueue.event_cursors WHERE name = $1::text AND token = $2::bigint
), w AS (
    SELECT e.eid FROM cur, jobqueue.job_events e
    WHERE cur.window_end IS NULL AND e.at >= cur.since
      AND e.xid >= pg_snapshot_xmax(cur.snapshot)
      AND e.xid < pg_snapshot_xmax(pg_current_snapshot())  -- not of a restored dump
    UNION ALL
    SELECT e.eid FROM cur, pg_snapshot_xip(cur.snapshot) x, jobqueue.job_events e
    WHERE cur.window_end IS NULL AND e.xid = x AND e.at >= cur.since
), found AS MATERIALIZED (  -- not w: it may be millions
    SELECT count(*) AS n, min(eid) - 1 AS after, max(eid) AS last FROM w
), u AS (
    UPDATE jobqueue.event_cursors c
    SET window_end = pg_current_snapshot(), window_xid = pg_current_xact_id(),
        window_at = clock_timestamp(), window_eid = coalesce(f.after, c.last_eid),
        window_last_eid = coalesce(f.last, c.last_eid),
        window_since = CASE
            WHEN EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()) x WHERE x < cur.xid)
                THEN cur.since
            WHEN EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()))
              OR pg_snapshot_xmax(pg_current_snapshot()) < pg_current_xact_id()
                THEN cur.updated_at - interval '1 day'
            ELSE clock_timestamp() - interval '1 day' END
    FROM cur, found f
    WHERE c.name = cur.name AND c.token = $2::bigint AND cur.window_end IS NULL
      AND c.window_end IS NULL
      AND (f.n > 0 OR cur.updated_at < clock_timestamp() - interval '1 minute')
    RETURNING f.n, c.window_eid, c.window_last_eid
)
SELECT n AS events, window_eid AS after, window_last_eid AS last FROM u
UNION ALL
SELECT NULL, window_eid, window_last_eid FROM cur WHERE window_end IS NOT NULL;
