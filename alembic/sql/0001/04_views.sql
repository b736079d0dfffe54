-- Python's calendar ends before PostgreSQL's does. A time outside of it, which only a hand in the
-- database can have stored, would fail the whole page of a list.
CREATE FUNCTION jobqueue.in_calendar(p_at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_at >= '10000-01-01Z' THEN 'infinity'::timestamptz
                WHEN p_at < '0001-01-01Z' THEN '-infinity'::timestamptz ELSE p_at END
$$;

CREATE VIEW jobqueue.job_status AS
SELECT j.job_id, q.name AS queue, j.type, s.status, j.priority, s.attempt, s.retry_count,
       j.max_retries, w.name AS worker_id, s.lease_token, j.created_at,
       coalesce(s.due_at, j.not_before) AS not_before, s.started_at, s.finished_at, s.reason,
       j.id AS job, s.seq, s.cancel_requested
FROM (
    SELECT id, 'PENDING' AS status, seq, attempt, retries AS retry_count, NULL::int AS worker_id,
           NULL::bigint AS lease_token, NULL::timestamptz AS due_at,
           NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at,
           reason::text AS reason, false AS cancel_requested
    FROM jobqueue.ready
    UNION ALL
    SELECT id, CASE WHEN failed THEN 'FAILED' ELSE 'PENDING' END, seq, attempt, retries, NULL,
           NULL, due_at, NULL, NULL, reason::text, false
    FROM jobqueue.scheduled
    UNION ALL
    SELECT id, CASE WHEN running THEN 'RUNNING' ELSE 'ASSIGNED' END, seq, attempt, retries,
           worker_id, token, NULL, started_at, NULL,
           CASE WHEN running THEN 'STARTED' ELSE 'CLAIMED' END, cancel_requested
    FROM jobqueue.leases
    UNION ALL
    SELECT id, CASE WHEN dead THEN 'DEAD_LETTERED' ELSE 'DONE' END, seq, attempt, retries,
           worker_id, token, NULL, started_at, finished_at, reason::text, false
    FROM jobqueue.finished
) s
JOIN jobqueue.jobs j ON j.id = s.id
JOIN jobqueue.queues q ON q.queue_id = j.queue_id
LEFT JOIN jobqueue.worker_names w ON w.worker_id = s.worker_id;

CREATE VIEW jobqueue.job_event_log AS
SELECT e.eid, e.job, j.job_id, q.name AS queue, e.seq, e.from_status::text AS from_status,
       e.to_status::text AS to_status, e.at, w.name AS worker_id, e.attempt, e.token,
       e.reason::text AS reason, e.detail, e.duration_ms, e.xid
FROM (
    SELECT eid, xid, job, at, token, queue_id, seq, from_status, to_status, reason, attempt,
           worker_id, duration_ms, detail
    FROM jobqueue.job_events
    UNION ALL
    SELECT eid, xid, job, at, token, queue_id, seq, from_status, to_status, reason, attempt,
           worker_id, duration_ms, detail
    FROM jobqueue.job_events_kept k
    -- While a partition is being dropped its kept events are in both.
    WHERE NOT EXISTS (SELECT FROM jobqueue.job_events o
                      WHERE o.job = k.job AND o.seq = k.seq AND o.at = k.at)
) e
JOIN jobqueue.queues q ON q.queue_id = e.queue_id
LEFT JOIN jobqueue.jobs j ON j.id = e.job
LEFT JOIN jobqueue.worker_names w ON w.worker_id = e.worker_id;
