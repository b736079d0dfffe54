-- Locks the cursor of the queue figures for this transaction; no row: another server rolls now.
-- valid is false in another cluster than the one it was stored in (a restored dump), where
-- transaction ids mean something else.
SELECT c.snapshot::text AS snapshot,
       c.system_identifier = s.system_identifier
       AND pg_snapshot_xmax(c.snapshot) <= pg_snapshot_xmax(pg_current_snapshot()) AS valid
FROM jobqueue.event_cursors c, pg_control_system() s
WHERE c.name = 'stats'
FOR UPDATE OF c SKIP LOCKED;
