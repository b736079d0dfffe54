-- Partitions of events older than $1 seconds that every consumer has passed, with the commands
-- that take them away. Detached ones are what an interrupted run left behind; a run that was cut
-- off in the middle of a DETACH left it pending, and it can only be finished.
-- $1 retention in seconds float8
SELECT c.relname AS name, i.inhrelid IS NOT NULL AS attached,
       format('ALTER TABLE jobqueue.job_events DETACH PARTITION jobqueue.%I %s', c.relname,
              CASE WHEN i.inhdetachpending THEN 'FINALIZE' ELSE 'CONCURRENTLY' END) AS detach,
       format('DROP TABLE jobqueue.%I', c.relname) AS drop
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'jobqueue'
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = 'jobqueue.job_events'::regclass
WHERE c.relkind = 'r'
  AND CASE WHEN c.relname ~ '^job_events_[0-9]{4}w[0-9]{2}$'  -- no other name has a week
           THEN (to_date(right(c.relname, 7), 'IYYY"w"IW') + 7)::timestamp AT TIME ZONE 'UTC'
                < least(now() - make_interval(secs => $1::float8),
                        (SELECT min(since) FROM jobqueue.event_cursors)) END
ORDER BY c.relname;
