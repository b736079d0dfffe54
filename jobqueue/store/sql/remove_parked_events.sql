-- Forgets parked events that were resent.
-- $1 event ids bigint[]
DELETE FROM jobqueue.parked_events WHERE event_id = ANY ($1::bigint[]);
