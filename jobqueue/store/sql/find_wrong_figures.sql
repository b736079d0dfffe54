-- Depths of queues that are not what the tables hold: the base at the cursor named stats, the
-- events after it, and a count of all rows, in one snapshot. Reads the four tables whole.
WITH cur AS MATERIALIZED (
    SELECT snapshot, least(since, now() - interval '1 day') AS since, restored_eid
    FROM jobqueue.event_cursors WHERE name = 'stats'
), w AS MATERIALIZED (
    SELECT e.queue_id, e.from_status, e.to_status
    FROM cur, jobqueue.job_events e
    WHERE e.at >= cur.since AND e.eid + 0 > cur.restored_eid
      AND e.xid >= pg_snapshot_xmax(cur.snapshot)
      AND e.xid < pg_snapshot_xmax(pg_current_snapshot())  -- not of a restored dump
    UNION ALL
    SELECT e.queue_id, e.from_status, e.to_status
    FROM cur, pg_snapshot_xip(cur.snapshot) x, jobqueue.job_events e
    WHERE e.xid = x AND e.at >= cur.since AND e.eid + 0 > cur.restored_eid
), both_sides AS (
    SELECT queue_id, status, depth AS figure, 0::bigint AS counted FROM jobqueue.queue_depths
    UNION ALL SELECT queue_id, to_status, 1, 0 FROM w
    UNION ALL SELECT queue_id, from_status, -1, 0 FROM w WHERE from_status IS NOT NULL
    UNION ALL SELECT queue_id, 'PENDING', 0, count(*) FROM jobqueue.ready GROUP BY 1
    UNION ALL
    SELECT queue_id, CASE WHEN failed THEN 'FAILED' ELSE 'PENDING' END::jobqueue.job_state, 0,
           count(*)
    FROM jobqueue.scheduled GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, CASE WHEN running THEN 'RUNNING' ELSE 'ASSIGNED' END::jobqueue.job_state, 0,
           count(*)
    FROM jobqueue.leases GROUP BY 1, 2
    UNION ALL
    SELECT queue_id, CASE WHEN dead THEN 'DEAD_LETTERED' ELSE 'DONE' END::jobqueue.job_state, 0,
           count(*)
    FROM jobqueue.finished GROUP BY 1, 2
)
SELECT coalesce(q.name, b.queue_id::text) AS queue, b.status::text AS status,
       sum(b.figure)::bigint AS figure, sum(b.counted)::bigint AS counted
FROM both_sides b LEFT JOIN jobqueue.queues q ON q.queue_id = b.queue_id
GROUP BY b.queue_id, q.name, b.status
HAVING sum(b.figure) <> sum(b.counted)
ORDER BY 1, 2;
