-- The place down to which one page of a list looks, for what no index leads to: the last of the
-- next $2 finished jobs before a job. NULL: there are no more, and it looks to the end.
-- $1 older than this job bigint · $2 jobs int
SELECT f.id FROM jobqueue.finished f WHERE f.id < $1::bigint ORDER BY f.id DESC OFFSET $2::int LIMIT 1;
