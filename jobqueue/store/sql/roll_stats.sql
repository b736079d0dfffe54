-- Adds the events since the cursor to the figures of the queues and moves the cursor, in a
-- transaction that holds the cursor's lock already: this statement's snapshot must be younger
-- than the lock, or two servers would count a window twice. Returns how many events.
-- A long window is cut short behind the transaction of its $1st event: the snapshot that is stored
-- then never was, and shows a job's later event without its earlier one at times. Sums do not mind.
-- Relies on job_events_xid, and so adds 0 to ids: no index of theirs is to be chosen.
-- $1 about how many events at most bigint
WITH cur AS MATERIALIZED (
    SELECT snapshot, least(since, now() - interval '1 day') AS since, restored_eid,
           xid, updated_at, last_eid
    FROM jobqueue.event_cursors WHERE name = 'stats'
), old AS MATERIALIZED (
    SELECT c.snapshot, c.since, c.restored_eid, c.xid, c.updated_at, coalesce(
        CASE WHEN s.last_value - c.last_eid > $1::bigint THEN (
            SELECT (e.xid::text::bigint + 1)::text::xid8 FROM jobqueue.job_events e
            WHERE e.at >= c.since AND e.eid + 0 > c.restored_eid
              AND e.xid >= pg_snapshot_xmax(c.snapshot)
              AND e.xid < pg_snapshot_xmax(pg_current_snapshot())  -- not of a restored dump
            ORDER BY e.xid OFFSET $1 LIMIT 1) END,
        pg_snapshot_xmax(pg_current_snapshot())) AS upto
    FROM cur c, jobqueue.event_id_seq s
), e AS (
    SELECT e.eid, e.queue_id, e.from_status, e.to_status, e.reason, e.at, e.duration_ms
    FROM old, jobqueue.job_events e
    WHERE e.at >= old.since AND e.eid + 0 > old.restored_eid
      AND e.xid >= pg_snapshot_xmax(old.snapshot) AND e.xid < old.upto
    UNION ALL
    SELECT e.eid, e.queue_id, e.from_status, e.to_status, e.reason, e.at, e.duration_ms
    FROM old, pg_snapshot_xip(old.snapshot) x, jobqueue.job_events e
    WHERE e.xid = x AND e.at >= old.since AND e.eid + 0 > old.restored_eid
), w AS MATERIALIZED (  -- events are read once, and only these few sums are kept
    SELECT queue_id, from_status, to_status, minute, count(*) AS n, sum(duration_ms) AS ms,
           max(eid) AS last
    FROM (SELECT e.*, CASE WHEN from_status = 'RUNNING'
                            AND reason NOT IN ('RELEASED', 'RETRY_LATER')
                      THEN date_bin('1 minute', at, 'epoch') END AS minute FROM e) m
    GROUP BY queue_id, from_status, to_status, minute
), deltas AS (
    SELECT queue_id, status, sum(depth) AS depth, sum(entered) AS entered
    FROM (SELECT queue_id, to_status AS status, n AS depth, n AS entered FROM w
          UNION ALL
          SELECT queue_id, from_status, -n, 0 FROM w WHERE from_status IS NOT NULL) m
    GROUP BY queue_id, status
), d AS (
    INSERT INTO jobqueue.queue_depths AS q (queue_id, status, depth, entered)
    SELECT queue_id, status, depth, entered FROM deltas ORDER BY queue_id, status
    ON CONFLICT (queue_id, status) DO UPDATE
    SET depth = q.depth + excluded.depth, entered = q.entered + excluded.entered
), m AS (
    INSERT INTO jobqueue.queue_minutes AS q (queue_id, minute, ended, failed, busy_ms)
    SELECT queue_id, minute, sum(n), coalesce(sum(n) FILTER (WHERE to_status = 'FAILED'), 0),
           coalesce(sum(ms), 0)
    FROM w WHERE minute IS NOT NULL
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (queue_id, minute) DO UPDATE
    SET ended = q.ended + excluded.ended, failed = q.failed + excluded.failed,
        busy_ms = q.busy_ms + excluded.busy_ms
), c AS (
    -- since bounds the age of rows outside the new snapshot. Their transactions are those in its
    -- xip and those from its xmax up to our own id. One older than the previous roll was outside
    -- the previous snapshot too; one younger wrote nothing before the previous roll. In a window
    -- that is cut short others are outside too: then it stays. A day less than that, for a clock that
    -- was set back: rows are found by xid, so all that since saves is partitions that are long passed.
    UPDATE jobqueue.event_cursors c
    SET snapshot = format('%s:%s:%s', least(pg_snapshot_xmin(pg_current_snapshot()), old.upto),
            old.upto, (SELECT string_agg(x::text, ',' ORDER BY x)
                       FROM pg_snapshot_xip(pg_current_snapshot()) x WHERE x < old.upto)
        )::pg_snapshot,
        xid = pg_current_xact_id(), updated_at = clock_timestamp(),
        last_eid = greatest(c.last_eid, (SELECT max(last) FROM w)),
        since = CASE
            WHEN old.upto < pg_snapshot_xmax(pg_current_snapshot())
              OR EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()) x WHERE x < old.xid)
                THEN old.since
            WHEN EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()))
              OR pg_snapshot_xmax(pg_current_snapshot()) < pg_current_xact_id()
                THEN old.updated_at - interval '1 day'
            ELSE clock_timestamp() - interval '1 day' END
    FROM old WHERE c.name = 'stats'
)
SELECT coalesce(sum(n), 0)::bigint AS events FROM w;
