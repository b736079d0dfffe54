-- Stores jobs. Two statements, because under READ COMMITTED the second sees what the winner of
-- a race for an idempotency key committed while the first waited for it.
--
-- One row per item in input order: its outcome is NEW, EXISTING (the key is known with the same
-- content), MISMATCH (with other content), NO_QUEUE, or TOO_FAR (not_before beyond p_horizon_s).
-- An id that is stored already is NEW again without a second row (not fresh): a repeated call is
-- harmless.
-- p_atomic: anything but NEW and EXISTING raises JQ001 with DETAIL 'ordinal outcome', and nothing
-- is stored.
CREATE FUNCTION jobqueue.submit_jobs(
    p_atomic bool, p_horizon_s float8, p_job_id uuid[], p_queue text[], p_type text[],
    p_priority smallint[], p_payload bytea[], p_max_retries int[], p_ttl_s float8[],
    p_delay_s float8[], p_not_before timestamptz[], p_timeout_s float8[], p_tenant text[],
    p_key text[], p_hash bytea[], p_labels text[], p_trace text[])
RETURNS TABLE (ord bigint, job_id uuid, outcome text, fresh bool) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    bad text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'submit_jobs needs READ COMMITTED' USING ERRCODE = '25001';
    END IF;
    IF array_remove(p_key, NULL) <> '{}' THEN
        INSERT INTO jobqueue.idempotency_keys (tenant, key, job_id, content_hash)
        SELECT DISTINCT ON (i.tenant, i.key) i.tenant, i.key, i.job_id, i.hash
        FROM unnest(p_tenant, p_key, p_job_id, p_hash, p_queue, p_not_before)
             WITH ORDINALITY i(tenant, key, job_id, hash, queue, not_before, ord)
        JOIN jobqueue.queues q ON q.name = i.queue AND q.deleted_at IS NULL
        WHERE i.key IS NOT NULL
          AND (i.not_before IS NULL OR i.not_before <= now() + make_interval(secs => p_horizon_s))
        ORDER BY i.tenant, i.key, i.ord
        ON CONFLICT DO NOTHING;
    END IF;
    FOR ord, job_id, outcome, fresh IN
        WITH i AS MATERIALIZED (
            SELECT i.*, q.queue_id, k.job_id AS key_job_id,
                   coalesce(i.max_retries, q.max_retries) AS retries_allowed,
                   coalesce(i.ttl_s, q.ttl_s) AS ttl,
                   CASE WHEN q.queue_id IS NULL THEN 'NO_QUEUE'
                        WHEN i.not_before > now() + make_interval(secs => p_horizon_s)
                             THEN 'TOO_FAR'
                        WHEN i.key IS NULL OR k.job_id = i.job_id THEN 'NEW'
                        WHEN k.content_hash = i.hash THEN 'EXISTING'
                        ELSE 'MISMATCH' END AS outcome
            FROM unnest(p_job_id, p_queue, p_type, p_priority, p_payload, p_max_retries, p_ttl_s,
                        p_delay_s, p_not_before, p_timeout_s, p_tenant, p_key, p_hash, p_labels,
                        p_trace)
                 WITH ORDINALITY i(job_id, queue, type, priority, payload, max_retries, ttl_s,
                                   delay_s, not_before, timeout_s, tenant, key, hash, labels,
                                   trace, ord)
            LEFT JOIN jobqueue.queues q ON q.name = i.queue AND q.deleted_at IS NULL
            LEFT JOIN jobqueue.idempotency_keys k ON k.tenant = i.tenant AND k.key = i.key
        ), stamped AS (
            SELECT i.*, clock_timestamp() AS created_at FROM i WHERE i.outcome = 'NEW'
            ORDER BY i.ord
        ), j AS (
            INSERT INTO jobqueue.jobs (job_id, queue_id, type, priority, payload, max_retries,
                ttl_s, timeout_s, tenant, idempotency_key, labels, trace_context, created_at,
                not_before)
            SELECT job_id, queue_id, type, priority, payload, retries_allowed, ttl, timeout_s,
                   tenant, key, labels::jsonb, trace::jsonb, created_at,
                   CASE WHEN not_before > created_at THEN not_before
                        WHEN delay_s > 0 THEN created_at + make_interval(secs => delay_s) END
            FROM stamped ORDER BY ord
            ON CONFLICT (job_id) DO NOTHING
            RETURNING id, job_id, queue_id, priority, created_at, not_before,
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
        -- A hashed subplan whatever the planner expects; a join could be a nested loop.
        SELECT i.ord, CASE i.outcome WHEN 'EXISTING' THEN i.key_job_id ELSE i.job_id END,
               i.outcome, i.job_id IN (SELECT j.job_id FROM j)
        FROM i ORDER BY i.ord
    LOOP
        IF p_atomic AND outcome NOT IN ('NEW', 'EXISTING') THEN
            bad := ord || ' ' || outcome;
            RAISE EXCEPTION 'item % of the batch: %', ord, outcome
                USING ERRCODE = 'JQ001', DETAIL = bad;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
