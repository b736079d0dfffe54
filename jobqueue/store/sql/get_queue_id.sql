-- Which queue has a name now: another one each time that the name is given again. No row: none has.
-- $1 name text
SELECT queue_id FROM jobqueue.queues WHERE name = $1::text AND deleted_at IS NULL;
