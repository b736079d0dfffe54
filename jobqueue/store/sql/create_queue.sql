-- Makes a queue. No row: the name is taken.
-- $1 name text · $2 max_retries int · $3 ttl_s float8 · $4 base_delay_s float8 ·
-- $5 max_delay_s float8 · $6 multiplier float8 · $7 priority weights json text · $8 max_running int
INSERT INTO jobqueue.queues (name, max_retries, ttl_s, base_delay_s, max_delay_s, multiplier,
    priority_weights, max_running)
VALUES ($1::text, $2::int, $3::float8, $4::float8, $5::float8, $6::float8, $7::text::jsonb,
    $8::int)
ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING
RETURNING name, max_retries, ttl_s, base_delay_s, max_delay_s, multiplier,
    priority_weights::text AS priority_weights, max_running, paused, created_at, updated_at;
