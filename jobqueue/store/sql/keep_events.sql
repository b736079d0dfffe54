-- Copies the events of jobs that still exist out of a partition that is to go; returns how many.
-- $1 name of the partition text
SELECT jobqueue.keep_events($1::text);
