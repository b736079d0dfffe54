-- The number of a job's latest transition. No row: no such job.
-- $1 job id uuid
SELECT seq FROM jobqueue.job_status WHERE job_id = $1::uuid;
