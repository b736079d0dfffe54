-- Tells whether one of some dates is past, so that a job that was stored with it is ready.
-- $1 dates timestamptz[]
SELECT min(at) <= clock_timestamp() AS past FROM unnest($1::timestamptz[]) AS at;
