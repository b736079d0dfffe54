-- How many jobs of a queue are PENDING, ASSIGNED, RUNNING or FAILED, counted up to $2 of each.
-- $1 queue_id int · $2 limit int
SELECT (SELECT count(*) FROM (SELECT FROM jobqueue.ready WHERE queue_id = $1::int LIMIT $2::int) r)
     + (SELECT count(*) FROM (SELECT FROM jobqueue.scheduled WHERE queue_id = $1 LIMIT $2) s)
     + (SELECT count(*) FROM (SELECT FROM jobqueue.leases WHERE queue_id = $1 LIMIT $2) l) AS live;
