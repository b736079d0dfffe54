-- After which job the newest $1 begin (NULL: there are no more than these), and about how many
-- jobs there are, as the planner believes.
-- $1 jobs int
SELECT (SELECT j.id FROM jobqueue.jobs j ORDER BY j.id DESC OFFSET $1::int LIMIT 1) AS after,
       greatest((SELECT c.reltuples FROM pg_class c
                 WHERE c.oid = 'jobqueue.jobs'::regclass), 0)::bigint AS about;
