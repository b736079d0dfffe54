-- Every partition of events, detached ones too, and the tables that are no partition but are
-- guarded alike (starts_at NULL). guards is how many there are of the triggers that refuse UPDATE,
-- DELETE and TRUNCATE, always on, and the CHECK that refuses illegal moves: 3. sealed: it has its index
-- by job, or too little for autovacuum to have counted it. passed: no consumer is still to read it,
-- and list_old_partitions does not keep it for the newest events.
SELECT c.relname AS name, b.starts_at, b.starts_at + interval '7 days' AS ends_at, now() AS now,
       c.relname IN ('job_events', 'job_events_kept')
           OR (i.inhrelid IS NOT NULL AND NOT i.inhdetachpending) AS attached,
       (SELECT count(*) FROM pg_trigger t
        WHERE t.tgrelid = c.oid AND t.tgenabled = 'A'
          AND t.tgfoid = 'jobqueue.refuse_event_change'::regproc)
       + (SELECT count(*) FROM pg_constraint k
          WHERE k.conrelid = c.oid AND k.conname = 'job_events_legal_move') AS guards,
       c.relpages <= 0
           OR to_regclass(format('jobqueue.%I', c.relname || '_log')) IS NOT NULL AS sealed,
       coalesce(b.starts_at + interval '7 days' < (SELECT min(since) FROM jobqueue.event_cursors),
                false)
           AND (pg_relation_size(c.oid) = 0
                OR count(*) FILTER (WHERE b.starts_at IS NOT NULL AND pg_relation_size(c.oid) > 0)
                   OVER (ORDER BY b.starts_at DESC NULLS FIRST
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) >= 2) AS passed
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'jobqueue'
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = 'jobqueue.job_events'::regclass
CROSS JOIN LATERAL (
    SELECT CASE WHEN c.relname ~ '^job_events_[0-9]{4}w[0-9]{2}$'
                THEN to_date(right(c.relname, 7), 'IYYY"w"IW')::timestamp AT TIME ZONE 'UTC'
           END AS starts_at) b
WHERE c.relkind IN ('r', 'p')
  AND (b.starts_at IS NOT NULL OR c.relname IN ('job_events', 'job_events_kept'))
ORDER BY c.relname;
