-- Stores jobs; see the function for what it promises, and for how long the arrays are.
-- $1 atomic bool · $2 again bool · $3 horizon of not_before in seconds float8 · $4 job ids uuid[] ·
-- $5 payloads bytea[] · $6 queues text[] · $7 types text[] · $8 priorities int2[] · $9 max_retries
-- int[] · $10 ttl_s float8[] · $11 delay_s float8[] · $12 not_before timestamptz[] · $13 timeout_s
-- float8[] · $14 tenants text[] · $15 keys text[] · $16 content hashes bytea[] · $17 labels json
-- text[] · $18 trace contexts json text[] · $19 hint to idle workers text
SELECT ord, job_id, outcome
FROM jobqueue.submit_jobs($1::bool, $2::bool, $3::float8, $4::uuid[], $5::bytea[], $6::text[],
    $7::text[], $8::smallint[], $9::int[], $10::float8[], $11::float8[], $12::timestamptz[],
    $13::float8[], $14::text[], $15::text[], $16::bytea[], $17::text[], $18::text[], $19::text);
