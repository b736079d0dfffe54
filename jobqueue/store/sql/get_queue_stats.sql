-- Figures of queues, exact in this statement's snapshot: what the cursor has counted plus the
-- events after it. Costs the same with ten million jobs as with ten.
-- $1 queue, NULL: all text · $2 window in seconds float8
WITH cur AS MATERIALIZED (
    SELECT snapshot, least(since, now() - interval '1 day') AS since, restored_eid
    FROM jobqueue.event_cursors WHERE name = 'stats'
), e AS (
    SELECT e.queue_id, e.from_status, e.to_status, e.reason, e.at, e.duration_ms
    FROM cur, jobqueue.job_events e
    WHERE e.at >= cur.since AND e.eid + 0 > cur.restored_eid
      AND e.xid >= pg_snapshot_xmax(cur.snapshot)
      AND e.xid < pg_snapshot_xmax(pg_current_snapshot())  -- not of a restored dump
    UNION ALL
    SELECT e.queue_id, e.from_status, e.to_status, e.reason, e.at, e.duration_ms
    FROM cur, pg_snapshot_xip(cur.snapshot) x, jobqueue.job_events e
    WHERE e.xid = x AND e.at >= cur.since AND e.eid + 0 > cur.restored_eid
), w AS MATERIALIZED (  -- events are read once, and only these few sums are kept
    SELECT queue_id, from_status, to_status, ends, count(*) AS n, sum(duration_ms) AS ms
    FROM (SELECT e.*, from_status = 'RUNNING' AND reason NOT IN ('RELEASED', 'RETRY_LATER')
                      AND at >= date_trunc('minute', now() - make_interval(secs => $2::float8))
                      AS ends FROM e) m
    GROUP BY queue_id, from_status, to_status, ends
), moves AS (
    SELECT queue_id, status, depth, entered FROM jobqueue.queue_depths
    UNION ALL SELECT queue_id, to_status, n, n FROM w
    UNION ALL SELECT queue_id, from_status, -n, 0 FROM w WHERE from_status IS NOT NULL
), counts AS MATERIALIZED (  -- else they would be summed once more for every queue
    SELECT m.queue_id,
           json_object_agg(m.status, json_build_array(m.depth, m.entered))::text AS by_status
    FROM (SELECT queue_id, status, sum(depth)::bigint AS depth, sum(entered)::bigint AS entered
          FROM moves GROUP BY queue_id, status) m
    GROUP BY m.queue_id
), ends AS (
    SELECT queue_id, ended, failed, busy_ms FROM jobqueue.queue_minutes
    WHERE minute >= date_trunc('minute', now() - make_interval(secs => $2::float8))
    UNION ALL
    SELECT queue_id, n, CASE WHEN to_status = 'FAILED' THEN n ELSE 0 END, coalesce(ms, 0) FROM w
    WHERE ends
)
SELECT q.name AS queue, q.paused, q.max_running, now() AS as_of,
       c.by_status AS counts,
       n.ended, n.failed, n.busy_ms,
       (SELECT date_part('epoch', now()) - date_part('epoch', min(o.ready_at))
        FROM generate_series(0, 9) p,
             LATERAL (SELECT r.ready_at FROM jobqueue.ready r
                      WHERE r.queue_id = q.queue_id AND r.priority = p
                      ORDER BY r.ready_at LIMIT 1) o) AS oldest_s,
       (SELECT count(*) FROM jobqueue.scheduled s
        WHERE s.queue_id = q.queue_id AND s.unhandled > 0) AS unhandled
FROM jobqueue.queues q
LEFT JOIN counts c ON c.queue_id = q.queue_id
LEFT JOIN (SELECT queue_id, sum(ended)::bigint AS ended, sum(failed)::bigint AS failed,
                  sum(busy_ms)::bigint AS busy_ms FROM ends GROUP BY queue_id) n
    ON n.queue_id = q.queue_id
WHERE q.deleted_at IS NULL AND ($1::text IS NULL OR q.name = $1)
ORDER BY q.name;
