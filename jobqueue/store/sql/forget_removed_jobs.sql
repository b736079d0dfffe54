-- Forgets removed jobs whose last event every consumer has passed: the transaction that removed a
-- job came after its last event. Those that watch the stream without a cursor get ten minutes.
DELETE FROM jobqueue.removed_jobs r
WHERE r.removed_at < clock_timestamp() - interval '10 minutes'
  AND NOT EXISTS (SELECT FROM jobqueue.event_cursors c
                  WHERE NOT pg_visible_in_snapshot(r.xid, c.snapshot))
RETURNING r.id;
