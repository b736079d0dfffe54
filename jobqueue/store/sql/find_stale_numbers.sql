-- Sequences that will give out numbers again, because they stand below what was given out already:
-- what copies the tables alone, such as logical replication, leaves them behind. Looks at the newest
-- events and at what holds a token now.
-- Relies on job_events_ids.
WITH newest AS MATERIALIZED (
    SELECT e.eid, e.token FROM jobqueue.job_events e
    WHERE e.eid > (SELECT max(c.last_eid) FROM jobqueue.event_cursors c) - 1000
), given AS (
    SELECT 'lease_token_seq' AS name,
           greatest((SELECT max(l.token) FROM jobqueue.leases l), (SELECT max(token) FROM newest)) AS last
    UNION ALL
    SELECT 'event_id_seq',
           greatest((SELECT max(c.last_eid) FROM jobqueue.event_cursors c), (SELECT max(eid) FROM newest))
    UNION ALL SELECT 'jobs_id_seq', max(j.id) FROM jobqueue.jobs j
    UNION ALL SELECT 'queues_queue_id_seq', max(q.queue_id) FROM jobqueue.queues q
    UNION ALL SELECT 'worker_names_worker_id_seq', max(w.worker_id) FROM jobqueue.worker_names w
), stands AS (
    SELECT 'lease_token_seq' AS name, last_value, is_called FROM jobqueue.lease_token_seq
    UNION ALL SELECT 'event_id_seq', last_value, is_called FROM jobqueue.event_id_seq
    UNION ALL SELECT 'jobs_id_seq', last_value, is_called FROM jobqueue.jobs_id_seq
    UNION ALL SELECT 'queues_queue_id_seq', last_value, is_called FROM jobqueue.queues_queue_id_seq
    UNION ALL
    SELECT 'worker_names_worker_id_seq', last_value, is_called
    FROM jobqueue.worker_names_worker_id_seq
)
SELECT s.name, s.last_value - (NOT s.is_called)::int AS stands, g.last AS given
FROM stands s JOIN given g ON g.name = s.name
WHERE g.last > s.last_value - (NOT s.is_called)::int
ORDER BY s.name;
