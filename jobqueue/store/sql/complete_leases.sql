-- RUNNING→DONE. Returns the pairs that it did not end. See the function.
-- One item each: $1 ids bigint[], $2 tokens bigint[], $3 results bytea[], $4 truncated bool[];
-- the last two may be shorter
-- $5 worker int
SELECT job, token FROM jobqueue.complete_leases($1, $2, $3, $4, $5);
