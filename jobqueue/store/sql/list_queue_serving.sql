-- How these queues are to be served, in the order of their names' list: their turns go by it, and
-- rows that are updated change their places. Unknown and deleted names give no row.
-- $1 names text[]
SELECT name, priority_weights::text AS priority_weights, max_running IS NOT NULL AS limited, paused
FROM jobqueue.queues WHERE name = ANY ($1::text[]) AND deleted_at IS NULL
ORDER BY array_position($1::text[], name);
