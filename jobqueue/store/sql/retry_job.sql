-- Makes a FAILED or DEAD_LETTERED job PENDING; see the function. Answers RETRIED, NOT_FOUND,
-- QUEUE_DELETED or the status that does not allow it.
-- $1 job id uuid
SELECT jobqueue.retry_job($1::uuid);
