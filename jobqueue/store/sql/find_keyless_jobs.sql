-- Jobs of a page that were submitted under an idempotency key which is not there, or names another
-- job: a repeated submission would make a second one. At most $3 of them, with the number of all
-- in total.
-- $1 after this job bigint · $2 up to this job bigint · $3 how many int
SELECT j.job_id, count(*) OVER () AS total
FROM jobqueue.jobs j
-- LATERAL with a LIMIT: by the index, whatever the planner thinks of reading the keys whole.
LEFT JOIN LATERAL (SELECT k.job_id FROM jobqueue.idempotency_keys k
                   WHERE k.tenant = j.tenant AND k.key = j.idempotency_key LIMIT 1) k ON true
WHERE j.id > $1::bigint AND j.id <= $2::bigint AND j.idempotency_key IS NOT NULL
  AND k.job_id IS DISTINCT FROM j.job_id
ORDER BY j.id LIMIT $3::int;
