-- Cancels a job; see the function. Answers CANCELLED, REQUESTED, NOT_FOUND or a status, and in
-- which queue the job is.
-- $1 job id uuid · $2 also when running bool
SELECT jobqueue.cancel_job($1::uuid, $2::bool) AS answer,
       (SELECT q.name FROM jobqueue.jobs j JOIN jobqueue.queues q ON q.queue_id = j.queue_id
        WHERE j.job_id = $1::uuid) AS queue;
