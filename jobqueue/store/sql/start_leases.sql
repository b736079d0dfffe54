-- ASSIGNED→RUNNING for prefetched jobs: started, expired or lost, one row each. See the function.
-- $1 ids bigint[], $2 tokens bigint[] · $3 worker int · $4 lease seconds float8
SELECT job, token, state, fresh, waited_s, queue FROM jobqueue.start_leases($1, $2, $3, $4);
