-- Parked events that are to be sent again, in order.
-- $1 limit int
SELECT event_id, job_id, queue, sequence, from_status::text AS from_status,
       to_status::text AS to_status, at, reason::text AS reason, attempt, worker_id, detail,
       traceparent
FROM jobqueue.parked_events WHERE resend_at IS NOT NULL
ORDER BY event_id LIMIT $1::int;
