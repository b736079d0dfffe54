-- Sets the whole policy of a queue if it is still as it was read ($9), so that two updates of
-- different fields cannot undo each other. No row: changed meanwhile, or gone.
-- $1 name text · $2 max_retries int · $3 ttl_s float8 · $4 base_delay_s float8 ·
-- $5 max_delay_s float8 · $6 multiplier float8 · $7 priority weights json text ·
-- $8 max_running int · $9 updated_at as read timestamptz
UPDATE jobqueue.queues
SET max_retries = $2::int, ttl_s = $3::float8, base_delay_s = $4::float8,
    max_delay_s = $5::float8, multiplier = $6::float8, priority_weights = $7::text::jsonb,
    max_running = $8::int, updated_at = clock_timestamp()
WHERE name = $1::text AND deleted_at IS NULL AND updated_at = $9::timestamptz
RETURNING name, max_retries, ttl_s, base_delay_s, max_delay_s, multiplier,
    priority_weights::text AS priority_weights, max_running, paused, created_at, updated_at;
