-- Stores jobs; see the function for what it promises. One item each:
-- $1 atomic bool · $2 horizon of not_before in seconds float8 · $3 job ids uuid[] · $4 queues
-- text[] · $5 types text[] · $6 priorities int2[] · $7 payloads bytea[] · $8 max_retries int[] ·
-- $9 ttl_s float8[] · $10 delay_s float8[] · $11 not_before timestamptz[] · $12 timeout_s
-- float8[] · $13 tenants text[] · $14 keys text[] · $15 content hashes bytea[] · $16 labels json
-- text[] · $17 trace contexts json text[]
SELECT ord, job_id, outcome, fresh
FROM jobqueue.submit_jobs($1::bool, $2::float8, $3::uuid[], $4::text[], $5::text[],
    $6::smallint[], $7::bytea[], $8::int[], $9::float8[], $10::float8[], $11::timestamptz[],
    $12::float8[], $13::text[], $14::text[], $15::bytea[], $16::text[], $17::text[]);
