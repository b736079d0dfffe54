-- Sets an event aside that Kafka refused for good; once more when it was resent in vain.
-- $1 event id bigint · $2 job id uuid · $3 at timestamptz · $4 detail text · $5 traceparent text
-- $6 queue text · $7 sequence int · $8 from text · $9 to text · $10 reason text · $11 attempt int
-- $12 worker text · $13 cause text
INSERT INTO jobqueue.parked_events (event_id, job_id, at, detail, traceparent, queue, sequence,
    from_status, to_status, reason, attempt, worker_id, cause)
VALUES ($1::bigint, $2::uuid, $3::timestamptz, $4::text, $5::text, $6::text, $7::int,
        $8::text::jobqueue.job_state, $9::text::jobqueue.job_state,
        $10::text::jobqueue.move_reason, $11::int, $12::text, $13::text)
ON CONFLICT (event_id) DO UPDATE SET cause = excluded.cause, resend_at = NULL;
