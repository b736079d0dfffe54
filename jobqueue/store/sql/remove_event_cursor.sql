-- Removes a cursor and the events that are parked for it: nothing is kept for its consumer any more.
-- $1 name text
WITH p AS (DELETE FROM jobqueue.parked_events)
DELETE FROM jobqueue.event_cursors WHERE name = $1::text;
