-- Stops or resumes claims from a queue. A claim already on its way may still win.
-- $1 name text · $2 paused bool
UPDATE jobqueue.queues
SET updated_at = CASE WHEN paused <> $2::bool THEN clock_timestamp() ELSE updated_at END,
    paused = $2::bool
WHERE name = $1::text AND deleted_at IS NULL
RETURNING name, max_retries, ttl_s, base_delay_s, max_delay_s, multiplier,
    priority_weights::text AS priority_weights, max_running, paused, created_at, updated_at;
