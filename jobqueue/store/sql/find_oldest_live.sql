-- The lowest id of a queue's jobs that are not finished; null: there is none.
-- $1 queue_id int. Relies on ready_claim; scheduled and leases have no index by queue.
SELECT least((SELECT min(id) FROM jobqueue.ready WHERE queue_id = $1::int),
             (SELECT min(id) FROM jobqueue.scheduled WHERE queue_id = $1),
             (SELECT min(id) FROM jobqueue.leases WHERE queue_id = $1)) AS id;
