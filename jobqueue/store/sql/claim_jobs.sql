-- Claims at most $7 jobs; in the order in which they should run. See the function.
-- One probe each: $1 queue names text[], $2 priorities int2[], $3 quotas int[], $4 has a handler
-- for jobs without a type bool[], $5 how many to skip int[], $6 ready for no longer than these
-- seconds float8[]
-- $7 how many int · $8 worker int · $9 lease seconds float8 · $10 start at once bool
-- $11 limited queues that may be asked text[] · $12 types it can run text[]
SELECT job, token, job_id, queue, type, payload, priority, attempt, running, max_retries, timeout_s,
       labels, trace_context, retries, crashes, handbacks, unhandled, base_delay_s, max_delay_s,
       multiplier, waited_s
FROM jobqueue.claim_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);
