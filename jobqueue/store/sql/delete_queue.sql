-- Puts a tombstone on a queue: no submission and no claim sees it from then on. Unless forced
-- only when it holds no live job. Answers whether it is deleted, now or before. By its id, so that
-- a repetition finds what it did, and never takes the queue that has the name by now.
-- $1 queue_id int · $2 forced bool
WITH q AS MATERIALIZED (
    SELECT queue_id, deleted_at FROM jobqueue.queues WHERE queue_id = $1::int FOR UPDATE
), live AS (
    SELECT EXISTS (SELECT FROM jobqueue.ready r JOIN q USING (queue_id))
        OR EXISTS (SELECT FROM jobqueue.scheduled s JOIN q USING (queue_id))
        OR EXISTS (SELECT FROM jobqueue.leases l JOIN q USING (queue_id)) AS any
), u AS (
    UPDATE jobqueue.queues o SET deleted_at = clock_timestamp(), updated_at = clock_timestamp()
    FROM q, live
    WHERE o.queue_id = q.queue_id AND q.deleted_at IS NULL AND ($2::bool OR NOT live.any)
    RETURNING o.queue_id
)
SELECT EXISTS (SELECT FROM u) OR EXISTS (SELECT FROM q WHERE deleted_at IS NOT NULL) AS deleted;
