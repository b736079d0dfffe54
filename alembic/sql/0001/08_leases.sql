-- What workers do all day: claim, start, complete, settle. Each is one statement, which moves rows
-- and writes the events of that move.
--
-- They are functions for the sake of their plans (docs/adr/0012): planned once a session, by the
-- settings below, whoever calls and through whatever pooler. A plan that is kept must be right for
-- a table of a million rows that had three when it was made. So each part is written such that a
-- look-up by key is the only way there is:
-- - ready is read by a list of ctids. That is safe, as no row of it is ever updated.
-- - id = ANY (a list) is one walk through an index, from one of the list to the next, that skips what
--   lies between. The rest of the join meets no more rows than the list is long.
-- - LATERAL (… OFFSET 0) can only be the inner side of a join.
-- - leases.id BETWEEN i AND i can be looked up in an index, but an ordered read of that index is no
--   use for it, as it would be for leases.id = i.
-- Where both sides of a join are lists, only one kind of join is on, whose time grows as they do. What
-- plans need is turned on by name: a role or a database may have it off.
-- What is needed later is carried along.
--
-- PostgreSQL 15 and 16 cannot subtract infinite times, and one job with such a time, which only a
-- hand in the database can have stored, would fail the statement for all. What looks at many jobs
-- counts seconds between two times from their epochs. Here such a job has not waited, and its attempt
-- took no time that is known: an infinite number would stay in the sums of metrics.

-- Claims at most p_count jobs: visits the probes in their order and takes the oldest ready jobs of
-- each, up to its quota. Returns them with their bodies, in the order in which they should run; those
-- of a queue and priority that is visited twice come together, at its first place.
-- Locks exactly the rows it claims: the outer LIMIT is lazy. Relies on ready_claim.
-- A paused, deleted or unknown queue gives nothing; one with max_running only when p_limited names it.
-- A job that nobody here can run becomes ASSIGNED whatever p_start says; its caller hands it back.
CREATE FUNCTION jobqueue.claim_jobs(
    -- one probe each; p_untyped: has a handler for jobs without a type; p_skips: how many an
    -- earlier probe of the same queue and priority may have taken (our own locks do not hide a
    -- row from us); p_within_s: no job ready for longer than that, NULL for any
    p_queues text[], p_priorities smallint[], p_quotas int[], p_untyped bool[], p_skips int[],
    p_within_s float8[],
    p_count int, p_worker int, p_lease_s float8, p_start bool, p_limited text[], p_types text[])
RETURNS TABLE (job bigint, token bigint, job_id uuid, queue text, type text, payload bytea,
    priority smallint, attempt int, running bool, max_retries int, timeout_s float8, labels text,
    trace_context text, retries smallint, crashes smallint, handbacks int, unhandled int,
    base_delay_s float8, max_delay_s float8, multiplier float8, waited_s float8)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_indexscan = on SET enable_tidscan = on SET enable_hashjoin = on SET enable_mergejoin = off
SET enable_nestloop = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH p AS MATERIALIZED (
        SELECT u.*, q.*
        FROM unnest(p_queues, p_priorities, p_quotas, p_untyped, p_skips, p_within_s)
                 WITH ORDINALITY AS u (queue, priority, quota, untyped, skip, within_s, ord),
             LATERAL (
                 SELECT o.queue_id, o.name, o.base_delay_s, o.max_delay_s, o.multiplier
                 FROM jobqueue.queues o
                 WHERE o.name = u.queue AND o.deleted_at IS NULL AND NOT o.paused
                   AND (o.max_running IS NULL OR o.name = ANY (p_limited))
                 OFFSET 0
             ) q
    ), d AS (
        -- The list is whole before the first row is deleted: a second visit of one place must
        -- still find what the first one took.
        DELETE FROM jobqueue.ready t
        WHERE t.ctid = ANY (ARRAY(
            SELECT x.ctid
            FROM p, LATERAL (
                SELECT y.ctid
                FROM (
                    SELECT r.ctid
                    FROM jobqueue.ready r
                    WHERE r.queue_id = p.queue_id AND r.priority = p.priority
                      AND r.ready_at >= coalesce(
                          now() - make_interval(secs => p.within_s), '-infinity')
                      AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
                      -- Counted by hand to where no number is left for the next move: it would
                      -- fail the claim of all others, again and again.
                      AND r.attempt < 2147483647 AND r.seq < 2147483645
                    ORDER BY r.ready_at, r.id
                    LIMIT p.quota + p.skip
                    FOR UPDATE SKIP LOCKED
                ) y
                -- An OFFSET beside the LIMIT would talk the planner out of the ordered scan.
                OFFSET p.skip
            ) x
            LIMIT p_count))
        RETURNING t.id, t.ready_at, t.queue_id, t.seq, t.attempt, t.priority, t.retries, t.crashes,
                  t.handbacks, t.unhandled, t.expires_at
    ), b AS MATERIALIZED (
        -- What every move needs comes first: to read a column of a stored row is to step over
        -- those before it. Both events get their ids here, whatever the order of their inserts.
        SELECT d.id, nextval('jobqueue.lease_token_seq') AS token, clock_timestamp() AS at,
               nextval('jobqueue.event_id_seq') AS eid, nextval('jobqueue.event_id_seq') AS eid2,
               d.ready_at, d.queue_id, d.seq, d.attempt,
               p_start AND CASE WHEN j.type IS NULL THEN k.untyped
                                ELSE j.type = ANY (p_types) END AS running,
               d.priority, d.retries, d.crashes, d.handbacks, d.unhandled, d.expires_at, k.ord,
               k.base_delay_s, k.max_delay_s, k.multiplier, k.name, j.job_id, j.max_retries,
               j.type, j.payload, j.timeout_s, j.labels, j.trace_context
        FROM d
        JOIN (SELECT DISTINCT ON (queue_id, priority) * FROM p
              ORDER BY queue_id, priority, ord) k USING (queue_id, priority)
        JOIN jobqueue.jobs j ON j.id = d.id AND j.id = ANY (ARRAY(SELECT id FROM d))
    ), l AS (
        INSERT INTO jobqueue.leases (id, token, ready_at, ttl_expires_at, claimed_at, started_at,
            expires_at, queue_id, seq, attempt, worker_id, priority, retries, crashes, handbacks,
            unhandled, running)
        SELECT id, token, ready_at, CASE WHEN NOT running THEN expires_at END, at,
               CASE WHEN running THEN at END, at + make_interval(secs => p_lease_s), queue_id,
               seq + 1 + running::int, attempt + running::int, p_worker, priority, retries, crashes,
               CASE WHEN running THEN 0 ELSE handbacks END,
               CASE WHEN running THEN 0 ELSE unhandled END, running
        FROM b
    ), e AS (
        INSERT INTO jobqueue.job_events (eid, job, queue_id, seq, from_status, to_status, reason,
            attempt, token, worker_id, at)
        SELECT least(eid, eid2), id, queue_id, seq + 1, 'PENDING'::jobqueue.job_state,
               'ASSIGNED'::jobqueue.job_state, 'CLAIMED'::jobqueue.move_reason,
               attempt + running::int, token, p_worker, at
        FROM b
        UNION ALL
        SELECT greatest(eid, eid2), id, queue_id, seq + 2, 'ASSIGNED', 'RUNNING', 'STARTED',
               attempt + 1, token, p_worker, at
        FROM b WHERE running
    )
    SELECT id AS job, token, job_id, name AS queue, type, payload, priority, attempt + 1 AS attempt,
           running, max_retries, timeout_s, labels::text AS labels,
           trace_context::text AS trace_context, retries, crashes,
           CASE WHEN running THEN 0 ELSE handbacks END AS handbacks,
           CASE WHEN running THEN 0 ELSE unhandled END AS unhandled,
           base_delay_s, max_delay_s, multiplier,
           CASE WHEN isfinite(ready_at) THEN date_part('epoch', at - ready_at) ELSE 0 END
               AS waited_s
    FROM b
    ORDER BY ord, ready_at, id;
END $$;

-- ASSIGNED→RUNNING for prefetched jobs, with a fresh lease; the TTL no longer applies after it.
-- One whose TTL is over is dead-lettered instead. Answers started, expired or lost, one row each;
-- started also for one that was started by an earlier try whose answer was lost (not fresh). That is
-- looked for in a statement of its own: the earlier try may commit while this one waits for its rows,
-- and no snapshot from before that shows it.
-- waited_s is how long a job that was started now had been ready.
-- Waits for rows that its own worker's renewal holds, or a settle: a worker that is told to end hands
-- back what it is about to start, on another connection. As a settle it locks rows by id.
CREATE FUNCTION jobqueue.start_leases(
    p_ids bigint[], p_tokens bigint[], p_worker int, p_lease_s float8)
RETURNS TABLE (job bigint, token bigint, state text, fresh bool, waited_s float8, queue text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_indexscan = on SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ids bigint[];
    tokens bigint[];
    states text[];
    waits float8[];
    queues int[];
BEGIN
    WITH i AS (
        SELECT DISTINCT id, token FROM unnest(p_ids, p_tokens) t (id, token)
    ), k AS MATERIALIZED (
        SELECT l.id, l.token, l.ttl_expires_at <= clock_timestamp() AS expired
        FROM i JOIN jobqueue.leases l ON l.id BETWEEN i.id AND i.id AND l.token = i.token
        WHERE l.worker_id = p_worker AND NOT l.running
        ORDER BY i.id
        FOR NO KEY UPDATE OF l
    ), u AS (
        UPDATE jobqueue.leases l
        SET running = true, started_at = clock_timestamp(), ttl_expires_at = NULL, handbacks = 0,
            unhandled = 0, attempt = l.attempt + 1, seq = l.seq + 1,
            expires_at = clock_timestamp() + make_interval(secs => p_lease_s)
        FROM k
        WHERE l.id BETWEEN k.id AND k.id AND l.token = k.token AND k.expired IS NOT TRUE
        RETURNING l.id, l.token, l.queue_id, l.seq, l.attempt, l.worker_id,
                  CASE WHEN isfinite(l.ready_at)
                       THEN date_part('epoch', l.started_at - l.ready_at) ELSE 0 END AS waited_s
    ), x AS (
        DELETE FROM jobqueue.leases l USING k
        WHERE l.id BETWEEN k.id AND k.id AND l.token = k.token AND k.expired
        RETURNING l.id, l.token, l.queue_id, l.seq, l.attempt, l.worker_id, l.retries
    ), f AS (
        INSERT INTO jobqueue.finished (id, finished_at, token, queue_id, seq, attempt, worker_id,
            reason, retries, dead)
        SELECT id, clock_timestamp(), token, queue_id, seq + 2, attempt, worker_id, 'TTL_EXPIRED',
               retries, true
        FROM x
    ), e AS (
        INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason,
            attempt, token, worker_id)
        SELECT m.id, m.queue_id, m.seq, m.was, m.became, m.why, m.attempt, m.token, m.worker_id
        FROM (
            SELECT id, queue_id, seq, 'ASSIGNED'::jobqueue.job_state AS was,
                   'RUNNING'::jobqueue.job_state AS became, 'STARTED'::jobqueue.move_reason AS why,
                   attempt, token, worker_id
            FROM u
            UNION ALL
            SELECT x.id, x.queue_id, x.seq + n.k, n.was, n.became, 'TTL_EXPIRED', x.attempt,
                   x.token, x.worker_id
            FROM x CROSS JOIN (VALUES
                (1, 'ASSIGNED'::jobqueue.job_state, 'FAILED'::jobqueue.job_state),
                (2, 'FAILED', 'DEAD_LETTERED')) n (k, was, became)
        ) m
        ORDER BY m.id, m.seq
    )
    SELECT array_agg(m.id), array_agg(m.token), array_agg(m.state), array_agg(m.waited_s),
           array_agg(m.queue_id)
    INTO ids, tokens, states, waits, queues
    FROM (SELECT id, token, 'started' AS state, waited_s, queue_id FROM u
          UNION ALL SELECT id, token, 'expired', NULL, queue_id FROM x) m;

    RETURN QUERY
    SELECT i.id AS job, i.token,
           coalesce(m.state, CASE WHEN y.id IS NOT NULL THEN 'started' ELSE 'lost' END) AS state,
           m.id IS NOT NULL AS fresh, m.waited_s,
           (SELECT q.name FROM jobqueue.queues q
            WHERE q.queue_id = coalesce(m.queue_id, y.queue_id)) AS queue
    FROM (SELECT DISTINCT t.id, t.token FROM unnest(p_ids, p_tokens) t (id, token)) i
    LEFT JOIN unnest(ids, tokens, states, waits, queues) m (id, token, state, waited_s, queue_id)
        ON m.id = i.id AND m.token = i.token
    LEFT JOIN jobqueue.leases y ON y.id BETWEEN i.id AND i.id AND y.token = i.token
        AND y.worker_id = p_worker AND y.running;
END $$;

-- RUNNING→DONE, the common end. Each pair must be named once. Returns the pairs that it did not end,
-- none as a rule: they were lost, or ended by an earlier try. Matches id + token + worker, never
-- ctid: a renewal makes a new version of the row. With settle_leases and start_leases the only one
-- that may wait for a row of leases while it holds others, and so all three lock them by id;
-- everything else skips locked ones. p_results and p_truncated may be shorter: those behind their end
-- have no result.
CREATE FUNCTION jobqueue.complete_leases(
    p_ids bigint[], p_tokens bigint[], p_results bytea[], p_truncated bool[], p_worker int)
RETURNS TABLE (job bigint, token bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_indexscan = on SET enable_mergejoin = on SET enable_hashjoin = off
SET enable_nestloop = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ids bigint[];
    tokens bigint[];
BEGIN
    WITH d AS (
        DELETE FROM jobqueue.leases l USING (
            SELECT t.*
            FROM unnest(p_ids, p_tokens, p_results, p_truncated) t (id, token, result, truncated)
            ORDER BY t.id
            OFFSET 0
        ) i
        WHERE l.id = ANY (p_ids) AND l.id = i.id AND l.token = i.token
          AND l.worker_id = p_worker AND l.running
        RETURNING l.id, l.token, l.queue_id, l.started_at, l.seq, l.attempt, l.worker_id, l.retries,
                  clock_timestamp() AS at, coalesce(i.truncated, false) AS truncated,
                  i.result
    ), f AS (
        INSERT INTO jobqueue.finished (id, started_at, finished_at, token, queue_id, seq, attempt,
            worker_id, reason, retries, dead, result_truncated, result)
        SELECT id, started_at, at, token, queue_id, seq + 1, attempt, worker_id, 'COMPLETED',
               retries, false, truncated, result
        FROM d
    ), e AS (
        INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason,
            attempt, token, worker_id, duration_ms, at)
        SELECT id, queue_id, seq + 1, 'RUNNING', 'DONE', 'COMPLETED', attempt, token, worker_id,
               CASE WHEN isfinite(started_at)
                    THEN least(date_part('epoch', at - started_at) * 1000, 2147483647)::int END, at
        FROM d
    )
    SELECT array_agg(id), array_agg(token) INTO ids, tokens FROM d;
    IF cardinality(ids) IS DISTINCT FROM cardinality(p_ids) THEN
        RETURN QUERY SELECT * FROM unnest(p_ids, p_tokens) EXCEPT SELECT * FROM unnest(ids, tokens);
    END IF;
END $$;

-- Every other end: each row moves from leases to where its fate says (WAIT: scheduled, READY:
-- ready, DEAD: finished). A cancel flag that arrived meanwhile turns every fate into CANCELLED: it
-- was decided before this statement saw the row. Returns the pairs that it ended; matches as
-- complete_leases. p_worker is NULL for the reaper, who settles whoever holds them.
CREATE FUNCTION jobqueue.settle_leases(
    p_ids bigint[], p_tokens bigint[], p_fates text[], p_reasons text[], p_dead_reasons text[],
    p_delays_s float8[], p_retries smallint[], p_crashes smallint[], p_handbacks smallint[],
    p_unhandled smallint[], p_details text[], p_worker int)
RETURNS TABLE (job bigint, token bigint, cancelled bool)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_indexscan = on SET enable_mergejoin = on SET enable_hashjoin = off
SET enable_nestloop = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH d AS (
        DELETE FROM jobqueue.leases l USING (
            SELECT t.*
            FROM unnest(p_ids, p_tokens, p_fates, p_reasons, p_dead_reasons, p_delays_s,
                        p_retries, p_crashes, p_handbacks, p_unhandled, p_details)
                     t (id, token, fate, reason, dead_reason, delay_s, retries, crashes, handbacks,
                        unhandled, detail)
            ORDER BY t.id
            OFFSET 0
        ) i
        WHERE l.id = ANY (p_ids) AND l.id = i.id AND l.token = i.token
          AND (p_worker IS NULL OR l.worker_id = p_worker)
        RETURNING l.id, l.token, l.queue_id, l.priority, l.ready_at, l.ttl_expires_at, l.started_at,
            l.seq, l.attempt, l.worker_id, l.running, i.delay_s, i.crashes, i.handbacks,
            CASE WHEN l.cancel_requested THEN l.retries ELSE i.retries END AS retries,
            i.unhandled, i.detail, clock_timestamp() AS at, l.cancel_requested AS cancelled,
            CASE WHEN l.cancel_requested THEN 'DEAD' ELSE i.fate END AS fate,
            CASE WHEN l.cancel_requested THEN 'CANCELLED' ELSE i.reason
                END::jobqueue.move_reason AS reason,
            CASE WHEN l.cancel_requested THEN 'CANCELLED' ELSE i.dead_reason
                END::jobqueue.move_reason AS dead_reason,
            CASE WHEN p_worker IS NOT NULL THEN l.token END AS ended_token
    ), f AS (
        INSERT INTO jobqueue.finished (id, started_at, finished_at, token, queue_id, seq, attempt,
            worker_id, reason, retries, dead, error)
        SELECT id, started_at, at, ended_token, queue_id, seq + 2, attempt, worker_id, dead_reason,
               retries, true, detail
        FROM d WHERE fate NOT IN ('WAIT', 'READY')  -- so that no row can get lost
    ), s AS (
        INSERT INTO jobqueue.scheduled (id, ready_at, due_at, expires_at, token, queue_id, seq,
            attempt, reason, priority, retries, crashes, handbacks, unhandled, failed)
        SELECT id, ready_at, at + make_interval(secs => delay_s), ttl_expires_at, ended_token,
               queue_id, seq + 1, attempt, reason, priority, retries, crashes, handbacks, unhandled,
               true
        FROM d WHERE fate = 'WAIT'
    ), r AS (
        INSERT INTO jobqueue.ready (id, ready_at, expires_at, queue_id, seq, attempt, reason,
            priority, retries, crashes, handbacks, unhandled)
        SELECT id, ready_at, ttl_expires_at, queue_id, seq + 2, attempt, reason, priority, retries,
               crashes, handbacks, unhandled
        FROM d WHERE fate = 'READY'
    ), e AS (
        INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason,
            attempt, token, worker_id, duration_ms, detail, at)
        SELECT d.id, d.queue_id, d.seq + 1,
               CASE WHEN d.running THEN 'RUNNING' ELSE 'ASSIGNED' END::jobqueue.job_state,
               'FAILED'::jobqueue.job_state, d.reason, d.attempt, d.token, d.worker_id,
               -- Of a NULL, least() would take the other side.
               CASE WHEN d.running AND isfinite(d.started_at)
                    THEN least(date_part('epoch', d.at - d.started_at) * 1000, 2147483647)::int END,
               d.detail, d.at
        FROM d
        UNION ALL
        SELECT d.id, d.queue_id, d.seq + 2, 'FAILED',
               CASE d.fate WHEN 'DEAD' THEN 'DEAD_LETTERED' ELSE 'PENDING' END::jobqueue.job_state,
               CASE d.fate WHEN 'DEAD' THEN d.dead_reason ELSE d.reason END, d.attempt, d.token,
               d.worker_id, NULL, NULL, d.at
        FROM d WHERE d.fate IN ('DEAD', 'READY')
        ORDER BY 1, 3
    )
    SELECT id AS job, token, cancelled FROM d;
END $$;
