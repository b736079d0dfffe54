-- Puts a tombstone on a queue: no submission and no claim sees it from then on. Unless forced
-- only when it holds no live job. Answers deleted, not_empty, or not_found.
-- $1 name text · $2 forced bool
WITH q AS MATERIALIZED (
    SELECT queue_id FROM jobqueue.queues WHERE name = $1::text AND deleted_at IS NULL FOR UPDATE
), live AS (
    SELECT EXISTS (SELECT FROM jobqueue.ready r JOIN q USING (queue_id))
        OR EXISTS (SELECT FROM jobqueue.scheduled s JOIN q USING (queue_id))
        OR EXISTS (SELECT FROM jobqueue.leases l JOIN q USING (queue_id)) AS any
), u AS (
    UPDATE jobqueue.queues o SET deleted_at = clock_timestamp(), updated_at = clock_timestamp()
    FROM q, live WHERE o.queue_id = q.queue_id AND ($2::bool OR NOT live.any)
    RETURNING o.queue_id
)
SELECT CASE WHEN EXISTS (SELECT FROM u) THEN 'deleted' WHEN EXISTS (SELECT FROM q) THEN 'not_empty'
       ELSE 'not_found' END AS state, (SELECT queue_id FROM q) AS queue_id;
