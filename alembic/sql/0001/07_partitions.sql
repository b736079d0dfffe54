-- Keeps the events of jobs that still exist, before their partition is detached and once more
-- before it is dropped: so no reader ever misses one. Until it is detached they are in both tables.
CREATE FUNCTION jobqueue.keep_events(p_partition text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    kept bigint;
BEGIN
    EXECUTE format('
        INSERT INTO jobqueue.job_events_kept (eid, xid, job, at, token, queue_id, seq,
            from_status, to_status, reason, attempt, worker_id, duration_ms, detail)
        SELECT e.eid, e.xid, e.job, e.at, e.token, e.queue_id, e.seq, e.from_status, e.to_status,
               e.reason, e.attempt, e.worker_id, e.duration_ms, e.detail
        FROM jobqueue.%I e JOIN jobqueue.jobs j ON j.id = e.job
        ON CONFLICT (job, seq) DO NOTHING', p_partition);
    GET DIAGNOSTICS kept = ROW_COUNT;
    RETURN kept;
END $$;

-- Removes kept events of jobs that are gone, once every consumer has passed them: their partition
-- is gone too. Looks at those of at most p_jobs jobs after job p_after; returns the last of these
-- (NULL: there are no more) and how many events went. Only the owner of the table can do this, and
-- the guard is off for nobody else: ALTER TABLE keeps all other writers out until the commit.
-- There are none but upkeep, so it waits for an autovacuum to give way, as below.
CREATE FUNCTION jobqueue.forget_kept_events(p_after bigint, p_jobs int)
RETURNS TABLE (upto bigint, forgotten bigint) LANGUAGE plpgsql SET lock_timeout = '30s'
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    passed timestamptz;
    gone bigint[];
BEGIN
    SELECT min(since) INTO passed FROM jobqueue.event_cursors;
    SELECT max(p.job), array_agg(p.job) FILTER (WHERE j.id IS NULL) INTO upto, gone
    FROM (SELECT DISTINCT k.job FROM jobqueue.job_events_kept k
          WHERE k.job > p_after ORDER BY k.job LIMIT p_jobs) p
    LEFT JOIN jobqueue.jobs j ON j.id = p.job;
    forgotten := 0;
    IF gone IS NOT NULL THEN
        ALTER TABLE jobqueue.job_events_kept DISABLE TRIGGER job_events_kept_immutable;
        DELETE FROM jobqueue.job_events_kept WHERE job = ANY (gone) AND at < passed;
        GET DIAGNOSTICS forgotten = ROW_COUNT;
        ALTER TABLE jobqueue.job_events_kept ENABLE ALWAYS TRIGGER job_events_kept_immutable;
    END IF;
    RETURN NEXT;
END $$;

-- Indexes the oldest partition that takes no more rows and has no such index yet, for the logs of
-- single jobs; false: there is none. The live partition goes without: it would cost every
-- transition 20 µs and 100 B of WAL. The lock stops nobody, so its wait outlasts deadlock_timeout:
-- only then is an autovacuum told to give way.
CREATE FUNCTION jobqueue.seal_event_partition() RETURNS bool
LANGUAGE plpgsql SET lock_timeout = '30s' AS $$
DECLARE
    part name;
BEGIN
    SELECT c.relname INTO part
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'jobqueue.job_events'::regclass
      -- CASE: the planner may look at the names of other tables first.
      AND CASE WHEN c.relname ~ '^job_events_[0-9]{4}w[0-9]{2}$'
               THEN to_date(right(c.relname, 7), 'IYYY"w"IW') + 8
                    < (now() AT TIME ZONE 'UTC')::date END
      AND to_regclass(format('jobqueue.%I', c.relname || '_log')) IS NULL
    ORDER BY c.relname LIMIT 1;
    IF part IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE INDEX %I ON jobqueue.%I (job, seq)', part || '_log', part);
    RETURN true;
END $$;
