-- Jobs of a page that are not in exactly one of ready, scheduled, leases and finished, and rows
-- of these without a job. places is NULL for a job that is nowhere; job_id for a row without job.
-- At most $3 of them, with the number of all in total.
-- $1 after this job bigint · $2 up to this job bigint · $3 how many int
WITH p AS (
    SELECT r.id, 'ready' AS place FROM jobqueue.ready r
    WHERE r.id > $1::bigint AND r.id <= $2::bigint
    UNION ALL
    SELECT s.id, 'scheduled' FROM jobqueue.scheduled s
    WHERE s.id > $1::bigint AND s.id <= $2::bigint
    UNION ALL
    SELECT l.id, 'leases' FROM jobqueue.leases l
    WHERE l.id > $1::bigint AND l.id <= $2::bigint
    UNION ALL
    SELECT f.id, 'finished' FROM jobqueue.finished f
    WHERE f.id > $1::bigint AND f.id <= $2::bigint
), j AS (
    SELECT o.id, o.job_id FROM jobqueue.jobs o WHERE o.id > $1::bigint AND o.id <= $2::bigint
)
SELECT coalesce(j.id, p.id) AS job, j.job_id,
       string_agg(p.place, ' and ' ORDER BY p.place) AS places, count(*) OVER () AS total
FROM j FULL JOIN p ON p.id = j.id
GROUP BY j.id, p.id, j.job_id
HAVING count(p.id) <> 1 OR j.id IS NULL
ORDER BY 1 LIMIT $3::int;
