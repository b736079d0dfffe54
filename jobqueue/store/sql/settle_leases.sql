-- Ends leases other than by success. Returns the pairs that it ended. See the function.
-- One item each: $1 ids bigint[], $2 tokens bigint[], $3 fates text[] (WAIT READY DEAD),
-- $4 reasons text[], $5 reasons of the dead-lettering text[], $6 delays in seconds float8[],
-- $7 retries, $8 crashes, $9 handbacks, $10 unhandled int2[], $11 details text[]
-- $12 worker int, NULL for the reaper
SELECT job, token, cancelled
FROM jobqueue.settle_leases($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);
