-- Jobs that should have moved $1 seconds ago: leases that expired, waiting jobs that came due, jobs
-- whose TTL ended before they started.
-- At most $2 of each, with the number of all in total and the age of the oldest in seconds.
-- $1 seconds float8 · $2 how many int. Relies on scheduled_due, ready_expires
-- and scheduled_expires; reads leases whole.
WITH late AS (
    SELECT 'leases' AS place, l.id, l.expires_at AS since FROM jobqueue.leases l
    WHERE l.expires_at < now() - make_interval(secs => $1::float8)
    UNION ALL
    SELECT 'scheduled', s.id, s.due_at FROM jobqueue.scheduled s
    WHERE s.due_at < now() - make_interval(secs => $1::float8)
    UNION ALL
    SELECT 'ttl', r.id, r.expires_at FROM jobqueue.ready r
    WHERE r.expires_at < now() - make_interval(secs => $1::float8)
    UNION ALL
    SELECT 'ttl', s.id, s.expires_at FROM jobqueue.scheduled s
    WHERE s.expires_at < now() - make_interval(secs => $1::float8)
), numbered AS (
    SELECT t.place, t.id, row_number() OVER (PARTITION BY t.place ORDER BY t.since) AS n,
           count(*) OVER (PARTITION BY t.place) AS total,
           coalesce(extract(epoch FROM now() - min(t.since) FILTER (WHERE isfinite(t.since))
                                OVER (PARTITION BY t.place)), 0)::float8 AS oldest_s
    FROM late t
)
SELECT n.place, (SELECT j.job_id FROM jobqueue.jobs j WHERE j.id = n.id) AS job_id, n.total,
       n.oldest_s
FROM numbered n
WHERE n.n <= $2::int ORDER BY n.place, n.n;
