-- One job with everything that is shown of it. Its last error is that of the outcome, or of the
-- latest failed attempt of this life, which only its events know, kept ones included. An attempt
-- that was handed back did not fail.
-- $1 job id uuid
SELECT v.job_id, v.queue, v.type, v.status, v.reason, v.priority, v.attempt, v.retry_count,
       v.max_retries, v.worker_id, jobqueue.in_calendar(v.created_at) AS created_at,
       jobqueue.in_calendar(v.not_before) AS not_before,
       jobqueue.in_calendar(v.started_at) AS started_at,
       jobqueue.in_calendar(v.finished_at) AS finished_at,
       v.cancel_requested, j.payload, j.ttl_s, j.timeout_s, j.idempotency_key, j.tenant,
       j.labels::text AS labels, j.trace_context::text AS trace_context, f.result,
       coalesce(f.result_truncated, false) AS result_truncated,
       coalesce(f.error, e.detail) AS last_error, l.progress_percent, l.progress_message
FROM jobqueue.job_status v
JOIN jobqueue.jobs j ON j.id = v.job
LEFT JOIN jobqueue.finished f ON f.id = v.job
LEFT JOIN jobqueue.leases l ON l.id = v.job
LEFT JOIN LATERAL (
    SELECT x.detail
    FROM (SELECT job, seq, at, from_status, to_status, reason, detail FROM jobqueue.job_events
          UNION ALL
          SELECT job, seq, at, from_status, to_status, reason, detail FROM jobqueue.job_events_kept
         ) x
    WHERE v.status <> 'DONE' AND f.error IS NULL AND (v.seq > 3 OR v.status = 'FAILED')
      AND x.job = v.job AND x.at >= v.created_at - interval '1 hour'
      AND (x.from_status = 'DEAD_LETTERED'
           OR (x.to_status = 'FAILED' AND x.reason NOT IN ('RELEASED', 'RETRY_LATER')))
    ORDER BY x.seq DESC LIMIT 1
) e ON true
WHERE v.job_id = $1::uuid;
