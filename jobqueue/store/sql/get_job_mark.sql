-- What changes with every change of a job, and no more: for those who ask again and again. No row: no
-- such job.
-- $1 job id uuid
SELECT v.seq, v.cancel_requested, l.progress_percent, l.progress_message
FROM jobqueue.job_status v
LEFT JOIN jobqueue.leases l ON l.id = v.job
WHERE v.job_id = $1::uuid;
