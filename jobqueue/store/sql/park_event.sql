-- Sets an event aside that Kafka refused for good; once more when it was resent in vain.
-- $1 event id bigint · $2 job id uuid · $3 queue text · $4 sequence int · $5 from text · $6 to text
-- $7 at timestamptz · $8 reason text · $9 attempt int · $10 worker text · $11 detail text
-- $12 traceparent text · $13 cause text
INSERT INTO jobqueue.parked_events (event_id, job_id, queue, sequence, from_status, to_status, at,
    reason, attempt, worker_id, detail, traceparent, cause)
VALUES ($1::bigint, $2::uuid, $3::text, $4::int, $5::text::jobqueue.job_state,
        $6::text::jobqueue.job_state, $7::timestamptz, $8::text::jobqueue.move_reason, $9::int,
        $10::text, $11::text, $12::text, $13::text)
ON CONFLICT (event_id) DO UPDATE SET cause = excluded.cause, resend_at = NULL;
