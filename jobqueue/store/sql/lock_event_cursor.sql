-- Locks a cursor for this transaction and says who holds it (NULL: nobody does). No row: there is
-- no such cursor.
-- $1 name text
SELECT CASE WHEN expires_at > clock_timestamp() THEN holder END AS holder
FROM jobqueue.event_cursors WHERE name = $1::text
FOR UPDATE;
