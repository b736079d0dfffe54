-- Removes kept events of jobs that are gone, of at most $2 jobs after job $1; see the function.
-- Returns the last job looked at (NULL: there are no more) and how many events went.
-- $1 after this job bigint · $2 jobs int
SELECT upto, forgotten FROM jobqueue.forget_kept_events($1::bigint, $2::int);
