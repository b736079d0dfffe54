-- Asks for parked events to be sent again; returns how many.
-- $1 event ids bigint[], NULL: all
WITH u AS (
    UPDATE jobqueue.parked_events SET resend_at = coalesce(resend_at, clock_timestamp())
    WHERE $1::bigint[] IS NULL OR event_id = ANY ($1)
    RETURNING event_id
)
SELECT count(*) FROM u;
