-- Parked events in order, a page.
-- $1 after this event bigint · $2 limit int
SELECT event_id, job_id, queue, sequence, from_status::text AS from_status,
       to_status::text AS to_status, at, reason::text AS reason, attempt, worker_id, detail,
       traceparent, cause, parked_at, resend_at IS NOT NULL AS resending
FROM jobqueue.parked_events WHERE event_id > $1::bigint
ORDER BY event_id LIMIT $2::int;
