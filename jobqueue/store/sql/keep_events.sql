-- Copies the events of jobs that still exist out of a detached partition; returns how many.
-- $1 name of the partition text
SELECT jobqueue.keep_events($1::text);
