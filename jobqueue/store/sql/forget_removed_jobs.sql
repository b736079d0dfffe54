-- Forgets removed jobs whose last event every consumer has passed: the transaction that removed a
-- job came after its last event. Of a restored dump, where transactions are yet to come, a cursor has
-- passed all once the window of reseed_event_cursor is; one that is void has passed none. Those that watch the stream without a cursor
-- get ten minutes.
-- Looks at $2 of them at most, after job $1; returns the last of these (NULL: the end was reached),
-- and how many went.
-- $1 after this job bigint · $2 rows to look at int
WITH page AS MATERIALIZED (
    SELECT r.id FROM jobqueue.removed_jobs r WHERE r.id > $1::bigint ORDER BY r.id LIMIT $2::int
), gone AS (
    DELETE FROM jobqueue.removed_jobs r USING page, pg_control_system() s
    WHERE r.id = page.id
      AND r.removed_at < clock_timestamp() - interval '10 minutes'
      AND NOT EXISTS (SELECT FROM jobqueue.event_cursors c
                      WHERE c.system_identifier <> s.system_identifier
                         OR pg_snapshot_xmax(c.snapshot) > pg_snapshot_xmax(pg_current_snapshot())
                         OR (NOT pg_visible_in_snapshot(r.xid, c.snapshot)
                             AND (r.xid < pg_snapshot_xmax(pg_current_snapshot())
                                  OR pg_snapshot_xmax(c.snapshot) = '1')))
    RETURNING 1
)
SELECT (SELECT max(id) FROM page HAVING count(*) = $2::int) AS upto,
       (SELECT count(*) FROM gone) AS forgotten;
