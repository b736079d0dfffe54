-- Makes a FAILED or DEAD_LETTERED job PENDING; see the function. Answers RETRIED, NOT_FOUND,
-- QUEUE_DELETED or the status that does not allow it, and in which queue the job is.
-- $1 job id uuid
SELECT jobqueue.retry_job($1::uuid) AS answer,
       (SELECT q.name FROM jobqueue.jobs j JOIN jobqueue.queues q ON q.queue_id = j.queue_id
        WHERE j.job_id = $1::uuid) AS queue;
