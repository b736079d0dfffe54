-- Queues by name: all, or the one named.
-- $1 name, NULL: all text
SELECT name, max_retries, ttl_s, base_delay_s, max_delay_s, multiplier,
    priority_weights::text AS priority_weights, max_running, paused,
    jobqueue.in_calendar(created_at) AS created_at, jobqueue.in_calendar(updated_at) AS updated_at
FROM jobqueue.queues
WHERE deleted_at IS NULL AND ($1::text IS NULL OR name = $1)
ORDER BY name;
