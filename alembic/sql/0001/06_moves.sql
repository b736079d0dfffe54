-- Moves that an operator asks for. Zero rows may mean "just moved": each pass of a loop is a new
-- snapshot, so a job that a claim or a settle moved meanwhile is found where it went. Hot
-- statements need no extra lock for this. A row that an application's transaction holds ends in
-- lock_timeout (55P03): the caller answers ABORTED.

-- CANCELLED: dead-lettered now. REQUESTED: it runs, and its worker will hear of it.
-- Otherwise the status that does not allow it, or NOT_FOUND.
CREATE FUNCTION jobqueue.cancel_job(p_job_id uuid, p_running bool) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    job bigint;
    found_status text;
    moved int;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'cancel_job needs READ COMMITTED' USING ERRCODE = '25001';
    END IF;
    SELECT id INTO job FROM jobqueue.jobs WHERE job_id = p_job_id;
    IF job IS NULL THEN RETURN 'NOT_FOUND'; END IF;
    FOR pass IN 1..50 LOOP
        WITH r AS (
            DELETE FROM jobqueue.ready WHERE id = job
            RETURNING id, queue_id, seq, attempt, retries, 'PENDING'::jobqueue.job_state AS was,
                      NULL::int AS worker_id
        ), s AS (
            DELETE FROM jobqueue.scheduled WHERE id = job
            RETURNING id, queue_id, seq, attempt, retries,
                      CASE WHEN failed THEN 'FAILED' ELSE 'PENDING' END::jobqueue.job_state,
                      NULL::int
        ), l AS (
            DELETE FROM jobqueue.leases WHERE id = job AND NOT running
            RETURNING id, queue_id, seq, attempt, retries, 'ASSIGNED'::jobqueue.job_state,
                      worker_id
        ), u AS (
            SELECT id, queue_id, seq, attempt, retries, was, worker_id FROM r
            UNION ALL SELECT * FROM s UNION ALL SELECT * FROM l
        ), f AS (
            INSERT INTO jobqueue.finished (id, finished_at, queue_id, seq, attempt, worker_id,
                reason, retries, dead)
            SELECT id, clock_timestamp(), queue_id, seq + 1, attempt, worker_id, 'CANCELLED',
                   retries, true
            FROM u
        )
        INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason,
            attempt, worker_id)
        SELECT id, queue_id, seq + 1, was, 'DEAD_LETTERED', 'CANCELLED', attempt, worker_id FROM u;
        GET DIAGNOSTICS moved = ROW_COUNT;
        IF moved = 1 THEN RETURN 'CANCELLED'; END IF;
        IF p_running THEN
            UPDATE jobqueue.leases SET cancel_requested = true WHERE id = job AND running;
            IF FOUND THEN RETURN 'REQUESTED'; END IF;
        END IF;
        SELECT status INTO found_status FROM jobqueue.job_status v WHERE v.job_id = p_job_id;
        IF found_status IS NULL THEN RETURN 'NOT_FOUND'; END IF;
        IF found_status IN ('DONE', 'DEAD_LETTERED')
           OR (found_status = 'RUNNING' AND NOT p_running) THEN
            RETURN found_status;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'job % keeps moving', p_job_id USING ERRCODE = '40001';
END $$;

-- RETRIED: it may be claimed again, with its counters at zero; a dead-lettered job begins a new
-- life (attempt 0) and its TTL counts from now. Otherwise the status that does not allow it,
-- QUEUE_DELETED (nobody would ever claim it there), or NOT_FOUND.
CREATE FUNCTION jobqueue.retry_job(p_job_id uuid) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    job bigint;
    found_status text;
    moved int;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'retry_job needs READ COMMITTED' USING ERRCODE = '25001';
    END IF;
    SELECT id INTO job FROM jobqueue.jobs WHERE job_id = p_job_id;
    IF job IS NULL THEN RETURN 'NOT_FOUND'; END IF;
    FOR pass IN 1..50 LOOP
        WITH live AS (
            SELECT queue_id FROM jobqueue.queues WHERE deleted_at IS NULL
        ), s AS (
            DELETE FROM jobqueue.scheduled o USING live
            WHERE o.id = job AND o.failed AND o.queue_id = live.queue_id
            RETURNING o.id, o.queue_id, o.seq, o.attempt, 'FAILED'::jobqueue.job_state AS was
        ), d AS (
            DELETE FROM jobqueue.finished o USING live
            WHERE o.id = job AND o.dead AND o.queue_id = live.queue_id
            RETURNING o.id, o.queue_id, o.seq, 0 AS attempt, 'DEAD_LETTERED'::jobqueue.job_state
        ), u AS (
            SELECT id, queue_id, seq, attempt, was FROM s UNION ALL SELECT * FROM d
        ), r AS (
            INSERT INTO jobqueue.ready (id, ready_at, expires_at, queue_id, seq, attempt, reason,
                priority, retries, crashes, handbacks, unhandled)
            SELECT u.id, clock_timestamp(),
                   clock_timestamp() + make_interval(secs => j.ttl_s),
                   u.queue_id, u.seq + 1, u.attempt, 'OPERATOR_RETRY', j.priority, 0, 0, 0, 0
            FROM u JOIN jobqueue.jobs j ON j.id = u.id
        )
        INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason,
            attempt)
        SELECT id, queue_id, seq + 1, was, 'PENDING', 'OPERATOR_RETRY', attempt FROM u;
        GET DIAGNOSTICS moved = ROW_COUNT;
        IF moved = 1 THEN RETURN 'RETRIED'; END IF;
        SELECT status INTO found_status FROM jobqueue.job_status v WHERE v.job_id = p_job_id;
        IF found_status IS NULL THEN RETURN 'NOT_FOUND'; END IF;
        IF found_status NOT IN ('FAILED', 'DEAD_LETTERED') THEN RETURN found_status; END IF;
        IF EXISTS (SELECT FROM jobqueue.jobs j JOIN jobqueue.queues q USING (queue_id)
                   WHERE j.id = job AND q.deleted_at IS NOT NULL) THEN
            RETURN 'QUEUE_DELETED';
        END IF;
    END LOOP;
    RAISE EXCEPTION 'job % keeps moving', p_job_id USING ERRCODE = '40001';
END $$;

-- DELETED: job, outcome and idempotency key are gone, its events stay. Otherwise the status that
-- does not allow it, or NOT_FOUND.
CREATE FUNCTION jobqueue.delete_job(p_job_id uuid) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '2s' SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    job bigint;
    found_status text;
BEGIN
    SELECT id INTO job FROM jobqueue.jobs WHERE job_id = p_job_id;
    IF job IS NULL THEN RETURN 'NOT_FOUND'; END IF;
    FOR pass IN 1..50 LOOP
        PERFORM jobqueue.remove_finished(ARRAY[job]);
        IF NOT EXISTS (SELECT FROM jobqueue.jobs WHERE id = job) THEN RETURN 'DELETED'; END IF;
        SELECT status INTO found_status FROM jobqueue.job_status v WHERE v.job_id = p_job_id;
        IF found_status IS NULL THEN RETURN 'NOT_FOUND'; END IF;
        IF found_status NOT IN ('DONE', 'DEAD_LETTERED') THEN RETURN found_status; END IF;
    END LOOP;
    RAISE EXCEPTION 'job % keeps moving', p_job_id USING ERRCODE = '40001';
END $$;

-- Removes finished jobs with all that belongs to them, in one statement, so that no job is ever
-- in zero tables; returns how many. Not a transition: the depths are lowered here.
CREATE FUNCTION jobqueue.remove_finished(p_jobs bigint[]) RETURNS bigint LANGUAGE sql AS $$
    WITH f AS (
        DELETE FROM jobqueue.finished WHERE id = ANY (p_jobs) RETURNING id, queue_id, dead
    ), j AS (
        DELETE FROM jobqueue.jobs j USING f WHERE j.id = f.id
        RETURNING j.id, j.tenant, j.idempotency_key, j.job_id, j.trace_context
    ), t AS (
        INSERT INTO jobqueue.removed_jobs (id, job_id, trace_context)
        SELECT id, job_id, trace_context FROM j
    ), k AS (
        DELETE FROM jobqueue.idempotency_keys k USING j
        WHERE k.tenant = j.tenant AND k.key = j.idempotency_key AND k.job_id = j.job_id
    ), n AS (
        INSERT INTO jobqueue.queue_depths AS q (queue_id, status, depth)
        SELECT queue_id, CASE WHEN dead THEN 'DEAD_LETTERED' ELSE 'DONE' END::jobqueue.job_state,
               -count(*)
        FROM f GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (queue_id, status) DO UPDATE SET depth = q.depth + excluded.depth
    )
    SELECT count(*) FROM f;
$$;
