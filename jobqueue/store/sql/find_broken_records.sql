-- Jobs of a page whose events do not tell one story that ends where the job is. check says what
-- is broken: sequences (not 1, 2, 3 … without gaps), transitions (an illegal one, one that does
-- not begin where the one before ended, or one with a smaller event id), status (the last event
-- is not the job's status, number, attempt and reason, or not its lease's token). At most $4 jobs for each check, with the number of all in
-- total. Jobs that were deleted are left out: the first partitions of their story may be gone.
-- $1 after this job bigint · $2 up to this job bigint · $3 legal transitions, as FROM>TO, nothing
-- before the first text[] · $4 how many int
-- Relies on job_events_ids, and on (job, seq) of sealed partitions and of job_events_kept. An
-- event may be in both while its partition is being dropped: UNION tells it once.
WITH j AS MATERIALIZED (
    SELECT o.id, o.job_id FROM jobqueue.jobs o WHERE o.id > $1::bigint AND o.id <= $2::bigint
), e AS (
    SELECT x.eid, x.job, x.seq, x.from_status, x.to_status, x.reason, x.attempt, x.token
    FROM jobqueue.job_events x
    WHERE x.job > $1::bigint AND x.job <= $2::bigint
    UNION
    SELECT x.eid, x.job, x.seq, x.from_status, x.to_status, x.reason, x.attempt, x.token
    FROM jobqueue.job_events_kept x
    WHERE x.job > $1::bigint AND x.job <= $2::bigint
), told AS (
    SELECT e.job, e.seq, e.from_status, e.to_status, e.reason, e.attempt, e.token,
           row_number() OVER w AS n, lag(e.to_status) OVER w AS was,
           coalesce(lag(e.eid) OVER w >= e.eid, false) AS earlier,
           lead(e.seq) OVER w IS NULL AS last
    FROM e WINDOW w AS (PARTITION BY e.job ORDER BY e.seq, e.eid)
), p AS (
    SELECT r.id, r.seq, 'PENDING'::jobqueue.job_state AS status, r.attempt, r.reason,
           NULL::bigint AS token
    FROM jobqueue.ready r WHERE r.id > $1::bigint AND r.id <= $2::bigint
    UNION ALL
    SELECT s.id, s.seq, CASE WHEN s.failed THEN 'FAILED' ELSE 'PENDING' END::jobqueue.job_state,
           s.attempt, s.reason, NULL
    FROM jobqueue.scheduled s WHERE s.id > $1::bigint AND s.id <= $2::bigint
    UNION ALL
    SELECT l.id, l.seq, CASE WHEN l.running THEN 'RUNNING' ELSE 'ASSIGNED' END::jobqueue.job_state,
           l.attempt, NULL, l.token
    FROM jobqueue.leases l WHERE l.id > $1::bigint AND l.id <= $2::bigint
    UNION ALL
    SELECT f.id, f.seq, CASE WHEN f.dead THEN 'DEAD_LETTERED' ELSE 'DONE' END::jobqueue.job_state,
           f.attempt, f.reason, NULL
    FROM jobqueue.finished f WHERE f.id > $1::bigint AND f.id <= $2::bigint
), faults AS (
    SELECT t.job, 'sequences' AS "check" FROM told t WHERE t.seq <> t.n
    UNION
    SELECT t.job, 'transitions' FROM told t
    WHERE t.earlier OR t.from_status IS DISTINCT FROM t.was
       OR coalesce(t.from_status::text, '') || '>' || t.to_status::text <> ALL ($3::text[])
    UNION
    SELECT p.id, 'status' FROM p LEFT JOIN told t ON t.job = p.id AND t.last
    WHERE (p.seq, p.status, p.attempt) IS DISTINCT FROM (t.seq, t.to_status, t.attempt)
       OR p.reason <> t.reason OR p.token IS DISTINCT FROM CASE WHEN p.reason IS NULL THEN t.token END
), numbered AS (
    SELECT f.job, j.job_id, f.check, row_number() OVER (PARTITION BY f.check ORDER BY f.job) AS n,
           count(*) OVER (PARTITION BY f.check) AS total
    FROM faults f JOIN j ON j.id = f.job
)
SELECT job, job_id, "check", total FROM numbered WHERE n <= $4::int ORDER BY "check", job;
