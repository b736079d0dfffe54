-- Adds the events since the cursor to the figures of the queues and moves the cursor, in a
-- transaction that holds the cursor's lock already: this statement's snapshot must be younger
-- than the lock, or two servers would count a window twice. Returns how many events.
WITH cur AS MATERIALIZED (
    SELECT snapshot, since, xid, updated_at FROM jobqueue.event_cursors WHERE name = 'stats'
), w AS MATERIALIZED (
    SELECT e.eid, e.queue_id, e.from_status, e.to_status, e.reason, e.at, e.duration_ms
    FROM cur, jobqueue.job_events e
    WHERE e.at >= cur.since AND e.xid >= pg_snapshot_xmax(cur.snapshot)
    UNION ALL
    SELECT e.eid, e.queue_id, e.from_status, e.to_status, e.reason, e.at, e.duration_ms
    FROM cur, pg_snapshot_xip(cur.snapshot) x, jobqueue.job_events e
    WHERE e.xid = x AND e.at >= cur.since
), deltas AS (
    SELECT queue_id, status, sum(depth) AS depth, sum(entered) AS entered
    FROM (SELECT queue_id, to_status AS status, 1 AS depth, 1 AS entered FROM w
          UNION ALL
          SELECT queue_id, from_status, -1, 0 FROM w WHERE from_status IS NOT NULL) m
    GROUP BY queue_id, status
), d AS (
    INSERT INTO jobqueue.queue_depths AS q (queue_id, status, depth, entered)
    SELECT queue_id, status, depth, entered FROM deltas ORDER BY queue_id, status
    ON CONFLICT (queue_id, status) DO UPDATE
    SET depth = q.depth + excluded.depth, entered = q.entered + excluded.entered
), m AS (
    INSERT INTO jobqueue.queue_minutes AS q (queue_id, minute, ended, failed, busy_ms)
    SELECT queue_id, date_trunc('minute', at), count(*), count(*) FILTER (WHERE to_status = 'FAILED'),
           sum(coalesce(duration_ms, 0))
    FROM w
    WHERE from_status = 'RUNNING' AND reason NOT IN ('RELEASED', 'RETRY_LATER')
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (queue_id, minute) DO UPDATE
    SET ended = q.ended + excluded.ended, failed = q.failed + excluded.failed,
        busy_ms = q.busy_ms + excluded.busy_ms
), c AS (
    -- since bounds the age of rows outside the new snapshot. Their transactions are those in its
    -- xip and those from its xmax up to our own id. One older than the previous roll was outside
    -- the previous snapshot too; one younger wrote nothing before the previous roll.
    UPDATE jobqueue.event_cursors e
    SET snapshot = pg_current_snapshot(), xid = pg_current_xact_id(),
        updated_at = clock_timestamp(),
        last_eid = greatest(e.last_eid, (SELECT max(eid) FROM w)),
        since = CASE
            WHEN EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()) x WHERE x < cur.xid)
                THEN cur.since
            WHEN EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()))
              OR pg_snapshot_xmax(pg_current_snapshot()) < pg_current_xact_id()
                THEN cur.updated_at - interval '1 minute'
            ELSE clock_timestamp() - interval '1 minute' END
    FROM cur WHERE e.name = 'stats'
)
SELECT count(*) AS events FROM w;
