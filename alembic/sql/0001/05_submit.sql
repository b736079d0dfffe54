-- One array holds a field of a batch: an element for each item, or one that counts for all, or no
-- array at all where nobody said it. This reads one item of it; the planner inlines it.
CREATE FUNCTION jobqueue.said(p_column anyarray, p_item anyelement) RETURNS anyelement
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE cardinality(p_column) WHEN 1 THEN p_column[1] ELSE p_item END
$$;

-- Tells which items of a batch are known already, in input order: EXISTING (the key is known with
-- the same content), MISMATCH (with other content), REPEATED (the id is stored, or is in the batch
-- before), MOVED (its key is nobody's: there was no such queue, the date is too far, or the key was
-- there and went), NULL (new). The keys of new items are taken; a key that another transaction is
-- taking is waited for.
--
-- Two statements, because under READ COMMITTED the second sees what the winner of a race for a key
-- committed while the first waited for it.
CREATE FUNCTION jobqueue.known_jobs(
    p_horizon timestamptz, p_job_id uuid[], p_queue text[], p_not_before timestamptz[],
    p_tenant text[], p_key text[], p_hash bytea[])
RETURNS TABLE (ord bigint, job_id uuid, outcome text) LANGUAGE plpgsql
SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    IF p_key IS NOT NULL THEN
        INSERT INTO jobqueue.idempotency_keys (tenant, key, job_id, content_hash)
        SELECT DISTINCT ON (i.tenant, i.key) i.tenant, i.key, i.job_id, i.hash
        FROM (SELECT i.ord, i.job_id, i.hash, jobqueue.said(p_queue, i.queue) AS queue,
                     jobqueue.said(p_not_before, i.not_before) AS not_before,
                     coalesce(jobqueue.said(p_tenant, i.tenant), '') COLLATE "C" AS tenant,
                     jobqueue.said(p_key, i.key) COLLATE "C" AS key
              FROM unnest(p_job_id, p_hash, p_queue, p_not_before, p_tenant, p_key)
                   WITH ORDINALITY i(job_id, hash, queue, not_before, tenant, key, ord)) i
        JOIN jobqueue.queues q ON q.name = i.queue AND q.deleted_at IS NULL
        WHERE i.key IS NOT NULL AND (i.not_before IS NULL OR i.not_before <= p_horizon)
        ORDER BY i.tenant, i.key, i.ord
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN QUERY
    SELECT i.ord,
           CASE WHEN k.content_hash = i.hash THEN k.job_id ELSE i.job_id END,
           CASE WHEN k.job_id <> i.job_id AND k.content_hash = i.hash THEN 'EXISTING'
                WHEN k.job_id <> i.job_id THEN 'MISMATCH'
                WHEN i.key IS NOT NULL AND k.job_id IS NULL THEN 'MOVED'
                WHEN i.place > 1 OR EXISTS (
                     SELECT FROM jobqueue.jobs j WHERE j.job_id = i.job_id) THEN 'REPEATED' END
    FROM (SELECT i.ord, i.job_id, i.hash,
                 coalesce(jobqueue.said(p_tenant, i.tenant), '') COLLATE "C" AS tenant,
                 jobqueue.said(p_key, i.key) COLLATE "C" AS key,
                 row_number() OVER (PARTITION BY i.job_id ORDER BY i.ord) AS place
          FROM unnest(p_job_id, p_hash, p_tenant, p_key)
               WITH ORDINALITY i(job_id, hash, tenant, key, ord)) i
    LEFT JOIN jobqueue.idempotency_keys k ON k.tenant = i.tenant AND k.key = i.key;
END $$;

-- Frees those keys of a batch that its jobs do not have. An id that is known keeps the key that it
-- first came with, or none; another one, that came with the id again, would outlive the job.
CREATE FUNCTION jobqueue.free_unused_keys(p_job_id uuid[], p_tenant text[], p_key text[])
RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    DELETE FROM jobqueue.idempotency_keys k
    USING unnest(p_job_id, p_tenant, p_key) i(job_id, tenant, key)
    WHERE k.tenant = coalesce(jobqueue.said(p_tenant, i.tenant), '')
      AND k.key = jobqueue.said(p_key, i.key) AND k.job_id = i.job_id
      AND NOT EXISTS (SELECT FROM jobqueue.jobs j
                      WHERE j.job_id = k.job_id AND j.tenant = k.tenant
                        AND j.idempotency_key = k.key);
END $$;

-- Stores jobs. A row for each item that was not simply stored, in input order: its outcome is
-- EXISTING, MISMATCH or REPEATED (see known_jobs), NO_QUEUE, or TOO_FAR (not_before beyond
-- p_horizon_s).
--
-- p_again: look first for what is known, which a batch with keys needs. Without it an id that is
-- stored already is a unique violation and nothing is stored; ask again with it.
-- p_atomic: anything but EXISTING and REPEATED raises JQ001 with DETAIL 'ordinal outcome', and
-- nothing is stored.
--
-- 40001: a key went, or a queue went or came, between the statements; nothing is stored, and trying
-- again tells the truth. A key that was kept for a job whose queue went would lead to a job that is
-- nowhere; a job whose key is nobody's would be stored a second time.
--
-- p_hint: names of queues that idle workers hear of with the commit, unless all items are refused. A
-- commit with a hint waits for all others that have one, so most have none, and the hint is sent by
-- itself.
--
-- The plan is made once: the statement reads no table that grows, and planning it costs more than
-- running it for one job. Ids and payloads have an element for each item, hashes too where there
-- are keys; for the other columns see said.
CREATE FUNCTION jobqueue.submit_jobs(
    p_atomic bool, p_again bool, p_horizon_s float8, p_job_id uuid[], p_payload bytea[],
    p_queue text[], p_type text[], p_priority smallint[], p_max_retries int[], p_ttl_s float8[],
    p_delay_s float8[], p_not_before timestamptz[], p_timeout_s float8[], p_tenant text[],
    p_key text[], p_hash bytea[], p_labels text[], p_trace text[],
    p_hint text)
RETURNS TABLE (ord bigint, job_id uuid, outcome text) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    horizon timestamptz := now() + make_interval(secs => p_horizon_s);
    stamp timestamptz;
    known_id uuid[];
    known text[];
    refused int := 0;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'submit_jobs needs READ COMMITTED' USING ERRCODE = '25001';
    END IF;
    IF p_again THEN
        SELECT array_agg(k.job_id ORDER BY k.ord), array_agg(k.outcome ORDER BY k.ord)
        INTO known_id, known
        FROM jobqueue.known_jobs(horizon, p_job_id, p_queue, p_not_before, p_tenant, p_key,
                                 p_hash) k;
    END IF;
    stamp := clock_timestamp();  -- after every wait for a key
    FOR ord, job_id, outcome IN
        WITH i AS MATERIALIZED (
            SELECT i.ord, i.job_id, i.payload, i.known_id, q.queue_id,
                   jobqueue.said(p_type, i.type) AS type,
                   coalesce(jobqueue.said(p_priority, i.priority), 0::smallint) AS priority,
                   coalesce(jobqueue.said(p_max_retries, i.max_retries), q.max_retries)
                       AS max_retries,
                   coalesce(jobqueue.said(p_ttl_s, i.ttl_s), q.ttl_s) AS ttl_s,
                   jobqueue.said(p_timeout_s, i.timeout_s) AS timeout_s,
                   coalesce(jobqueue.said(p_tenant, i.tenant), '') AS tenant,
                   jobqueue.said(p_key, i.key) AS key,
                   jobqueue.said(p_labels, i.labels) AS labels,
                   jobqueue.said(p_trace, i.trace) AS trace,
                   CASE WHEN jobqueue.said(p_not_before, i.not_before) > stamp
                        THEN jobqueue.said(p_not_before, i.not_before)
                        WHEN jobqueue.said(p_delay_s, i.delay_s) > 0
                        THEN stamp + make_interval(secs => jobqueue.said(p_delay_s, i.delay_s))
                        END AS not_before,
                   CASE WHEN q.queue_id IS NULL AND i.known IS NULL
                             AND jobqueue.said(p_key, i.key) IS NOT NULL THEN 'MOVED'
                        WHEN q.queue_id IS NULL THEN 'NO_QUEUE'
                        WHEN jobqueue.said(p_not_before, i.not_before) > horizon THEN 'TOO_FAR'
                        ELSE i.known END AS outcome
            FROM unnest(p_job_id, p_payload, p_queue, p_type, p_priority, p_max_retries, p_ttl_s,
                        p_delay_s, p_not_before, p_timeout_s, p_tenant, p_key, p_labels, p_trace,
                        known_id, known)
                 WITH ORDINALITY i(job_id, payload, queue, type, priority, max_retries, ttl_s,
                                   delay_s, not_before, timeout_s, tenant, key, labels, trace,
                                   known_id, known, ord)
            LEFT JOIN jobqueue.queues q
              ON q.name = jobqueue.said(p_queue, i.queue) AND q.deleted_at IS NULL
        ), j AS (
            INSERT INTO jobqueue.jobs (job_id, queue_id, type, priority, payload, max_retries,
                ttl_s, timeout_s, tenant, idempotency_key, labels, trace_context, created_at,
                not_before)
            SELECT job_id, queue_id, type, priority, payload, max_retries, ttl_s, timeout_s,
                   tenant, key, labels::jsonb, trace::jsonb, stamp, not_before
            FROM i WHERE outcome IS NULL ORDER BY ord
            RETURNING id, queue_id, priority, created_at, not_before,
                      coalesce(not_before, created_at) + make_interval(secs => ttl_s) AS expires_at
        ), r AS (
            INSERT INTO jobqueue.ready (id, ready_at, expires_at, queue_id, seq, attempt, reason,
                priority, retries, crashes, handbacks, unhandled)
            SELECT id, created_at, expires_at, queue_id, 1, 0, 'SUBMITTED', priority, 0, 0, 0, 0
            FROM j WHERE not_before IS NULL
        ), s AS (
            INSERT INTO jobqueue.scheduled (id, ready_at, due_at, expires_at, queue_id, seq,
                attempt, reason, priority, retries, crashes, handbacks, unhandled, failed)
            SELECT id, not_before, not_before, expires_at, queue_id, 1, 0, 'SUBMITTED', priority,
                   0, 0, 0, 0, false
            FROM j WHERE not_before IS NOT NULL
        ), e AS (
            INSERT INTO jobqueue.job_events (job, queue_id, seq, to_status, reason, attempt)
            SELECT id, queue_id, 1, 'PENDING', 'SUBMITTED', 0 FROM j ORDER BY id
        )
        SELECT i.ord, coalesce(i.known_id, i.job_id), i.outcome
        FROM i WHERE i.outcome IS NOT NULL ORDER BY i.ord
    LOOP
        IF outcome = 'MOVED' THEN
            RAISE EXCEPTION 'item % of the batch: its queue or its key moved meanwhile', ord
                USING ERRCODE = '40001';
        END IF;
        IF p_atomic AND outcome NOT IN ('EXISTING', 'REPEATED') THEN
            RAISE EXCEPTION 'item % of the batch: %', ord, outcome
                USING ERRCODE = 'JQ001', DETAIL = ord || ' ' || outcome;
        END IF;
        refused := refused + (outcome NOT IN ('EXISTING', 'REPEATED'))::int;
        RETURN NEXT;
    END LOOP;
    IF p_key IS NOT NULL AND 'REPEATED' = ANY (known) THEN
        PERFORM jobqueue.free_unused_keys(p_job_id, p_tenant, p_key);
    END IF;
    IF p_hint IS NOT NULL AND refused < cardinality(p_job_id) THEN
        PERFORM pg_notify('jobqueue_ready', p_hint);
    END IF;
END $$;
