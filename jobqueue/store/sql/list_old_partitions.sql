-- Partitions of events older than $1 seconds that every consumer has passed, with the commands
-- that take them away. Detached ones are what an interrupted run left behind; a run that was cut
-- off in the middle of a DETACH left it pending, and it can only be finished. The last two weeks that
-- hold events stay whatever the clock says: when it jumped ahead, the last one began with the jump.
-- list_event_partitions has this rule too.
-- $1 retention in seconds float8
SELECT w.name, w.attached, w.detach, w.drop
FROM (
    SELECT c.relname AS name, i.inhrelid IS NOT NULL AS attached,
           format('ALTER TABLE jobqueue.job_events DETACH PARTITION jobqueue.%I %s', c.relname,
                  CASE WHEN i.inhdetachpending THEN 'FINALIZE' ELSE 'CONCURRENTLY' END) AS detach,
           format('DROP TABLE jobqueue.%I', c.relname) AS drop,
           pg_relation_size(c.oid) = 0
               OR count(*) FILTER (WHERE pg_relation_size(c.oid) > 0) OVER (
                      ORDER BY c.relname DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                  >= 2 AS outlived
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'jobqueue'
    LEFT JOIN pg_inherits i
        ON i.inhrelid = c.oid AND i.inhparent = 'jobqueue.job_events'::regclass
    WHERE c.relkind = 'r' AND c.relname ~ '^job_events_[0-9]{4}w[0-9]{2}$'
) w
WHERE w.outlived
  AND CASE WHEN w.name ~ '^job_events_[0-9]{4}w[0-9]{2}$'  -- no other name has a week
           THEN (to_date(right(w.name, 7), 'IYYY"w"IW') + 7)::timestamp AT TIME ZONE 'UTC'
                < least(now() - make_interval(secs => $1::float8),
                        (SELECT min(since) FROM jobqueue.event_cursors)) END
ORDER BY w.name;
