-- The end of the page of $2 jobs after a job: the last id of the page, and how many jobs it has.
-- No job after it: no row. Reads one index.
-- $1 after this job bigint · $2 jobs int
SELECT max(p.id) AS upto, count(*) AS jobs
FROM (SELECT j.id FROM jobqueue.jobs j WHERE j.id > $1::bigint ORDER BY j.id LIMIT $2::int) p
HAVING count(*) > 0;
