-- Parked events that are to be sent again, in order.
-- $1 limit int
SELECT event_id, job_id, at, detail, traceparent, queue, sequence, from_status::text AS from_status,
       to_status::text AS to_status, reason::text AS reason, attempt, worker_id
FROM jobqueue.parked_events WHERE resend_at IS NOT NULL
ORDER BY event_id LIMIT $1::int;
