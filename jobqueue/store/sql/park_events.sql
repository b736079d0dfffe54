-- Sets events aside that Kafka refused for good; once more when they were resent in vain.
-- $1 event ids bigint[] · $2 job ids uuid[] · $3 ats timestamptz[] · $4 details text[]
-- $5 traceparents text[] · $6 queues text[] · $7 sequences int[] · $8 froms text[] · $9 tos text[]
-- $10 reasons text[] · $11 attempts int[] · $12 workers text[] · $13 causes text[]
INSERT INTO jobqueue.parked_events (event_id, job_id, at, detail, traceparent, queue, sequence,
    from_status, to_status, reason, attempt, worker_id, cause)
SELECT p.event_id, p.job_id, p.at, p.detail, p.traceparent, p.queue, p.sequence,
       p.from_status::jobqueue.job_state, p.to_status::jobqueue.job_state,
       p.reason::jobqueue.move_reason, p.attempt, p.worker_id, p.cause
FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[],
            $7::int[], $8::text[], $9::text[], $10::text[], $11::int[], $12::text[], $13::text[])
    p (event_id, job_id, at, detail, traceparent, queue, sequence, from_status, to_status, reason,
       attempt, worker_id, cause)
ON CONFLICT (event_id) DO UPDATE SET cause = excluded.cause, resend_at = NULL;
