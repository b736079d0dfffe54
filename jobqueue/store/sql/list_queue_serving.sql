-- How these queues are to be served. Unknown and deleted names give no row.
-- $1 names text[]
SELECT name, priority_weights::text AS priority_weights, max_running IS NOT NULL AS limited, paused
FROM jobqueue.queues WHERE name = ANY ($1::text[]) AND deleted_at IS NULL;
