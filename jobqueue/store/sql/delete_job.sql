-- Deletes a finished job; see the function. Answers DELETED, NOT_FOUND or a status.
-- $1 job id uuid
SELECT jobqueue.delete_job($1::uuid);
