-- Jobs of a page that are not in exactly one of ready, scheduled, leases and finished, or there in
-- another queue than their own, or in none that exists, so that nobody ever claims them; and rows
-- of these tables without a job. places is NULL for a job that is nowhere; job_id for a row without
-- a job.
-- At most $3 of them, with the number of all in total.
-- $1 after this job bigint · $2 up to this job bigint · $3 how many int
WITH p AS (
    SELECT r.id, r.queue_id, 'ready' AS place FROM jobqueue.ready r
    WHERE r.id > $1::bigint AND r.id <= $2::bigint
    UNION ALL
    SELECT s.id, s.queue_id, 'scheduled' FROM jobqueue.scheduled s
    WHERE s.id > $1::bigint AND s.id <= $2::bigint
    UNION ALL
    SELECT l.id, l.queue_id, 'leases' FROM jobqueue.leases l
    WHERE l.id > $1::bigint AND l.id <= $2::bigint
    UNION ALL
    SELECT f.id, f.queue_id, 'finished' FROM jobqueue.finished f
    WHERE f.id > $1::bigint AND f.id <= $2::bigint
), j AS (
    SELECT o.id, o.job_id, o.queue_id FROM jobqueue.jobs o
    WHERE o.id > $1::bigint AND o.id <= $2::bigint
), u AS (
    SELECT coalesce(j.id, p.id) AS job, j.job_id, p.place,
           CASE WHEN q.queue_id IS NULL THEN ' of no queue'
                WHEN p.queue_id <> j.queue_id THEN ' of another queue' END AS astray
    FROM j FULL JOIN p ON p.id = j.id LEFT JOIN jobqueue.queues q ON q.queue_id = j.queue_id
)
SELECT u.job, u.job_id,
       string_agg(u.place || coalesce(CASE WHEN u.job_id IS NOT NULL THEN u.astray END, ''), ' and '
                  ORDER BY u.place) AS places,
       count(*) OVER () AS total
FROM u
GROUP BY u.job, u.job_id
HAVING count(u.place) <> 1 OR bool_or(u.astray IS NOT NULL)
ORDER BY 1 LIMIT $3::int;
