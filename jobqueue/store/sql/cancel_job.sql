-- Cancels a job; see the function. Answers CANCELLED, REQUESTED, NOT_FOUND or a status.
-- $1 job id uuid · $2 also when running bool
SELECT jobqueue.cancel_job($1::uuid, $2::bool);
