-- Ends leases other than by success: each row moves from leases to where its fate says, with the
-- events of that move. A cancel flag that arrived meanwhile turns every fate into CANCELLED: it
-- was decided before this statement saw the row.
-- Returns the pairs that it ended. A missing one was lost, or ended by an earlier try.
-- Matches id + token (+ worker), never ctid: a renewal makes a new version of the row. With
-- complete_leases the only multi-row statement that may wait for a row of leases; all others
-- skip locked ones.
-- = ANY (ARRAY[…]) where = would do: it can be looked up by key, and by nothing else, whatever
-- the planner believes of the sizes (docs/adr/0012).
-- One item each: $1 ids bigint[], $2 tokens bigint[], $3 fates text[] (WAIT READY DEAD),
-- $4 reasons text[], $5 reasons of the dead-lettering text[], $6 delays in seconds float8[],
-- $7 retries, $8 crashes, $9 handbacks, $10 unhandled int2[], $11 details text[]
-- $12 worker int, NULL for the reaper
WITH i AS MATERIALIZED (
    SELECT DISTINCT ON (t.id, t.token) t.*
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::float8[],
                $7::smallint[], $8::smallint[], $9::smallint[], $10::smallint[], $11::text[])
             WITH ORDINALITY t (id, token, fate, reason, dead_reason, delay_s, retries, crashes,
                                handbacks, unhandled, detail, ord)
    ORDER BY t.id, t.token, t.ord
), d AS (
    DELETE FROM jobqueue.leases l USING i
    WHERE l.id = ANY (ARRAY[i.id]) AND l.token = i.token
      AND ($12::int IS NULL OR l.worker_id = $12)
    RETURNING l.id, l.token, l.queue_id, l.priority, l.ready_at, l.ttl_expires_at, l.started_at,
        l.seq, l.attempt, l.worker_id, l.running, i.delay_s, i.retries, i.crashes, i.handbacks,
        i.unhandled, i.detail, clock_timestamp() AS at, l.cancel_requested AS cancelled,
        CASE WHEN l.cancel_requested THEN 'DEAD' ELSE i.fate END AS fate,
        CASE WHEN l.cancel_requested THEN 'CANCELLED' ELSE i.reason END::jobqueue.move_reason
            AS reason,
        CASE WHEN l.cancel_requested THEN 'CANCELLED' ELSE i.dead_reason END::jobqueue.move_reason
            AS dead_reason,
        CASE WHEN $12::int IS NOT NULL THEN l.token END AS ended_token
), f AS (
    INSERT INTO jobqueue.finished (id, started_at, finished_at, token, queue_id, seq, attempt,
        worker_id, reason, retries, dead, error)
    SELECT id, started_at, at, ended_token, queue_id, seq + 2, attempt, worker_id, dead_reason,
           retries, true, detail
    FROM d WHERE fate = 'DEAD'
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
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt,
        token, worker_id, duration_ms, detail, at)
    SELECT d.id, d.queue_id, d.seq + 1,
           CASE WHEN d.running THEN 'RUNNING' ELSE 'ASSIGNED' END::jobqueue.job_state,
           'FAILED'::jobqueue.job_state, d.reason, d.attempt, d.token, d.worker_id,
           CASE WHEN d.running  -- least() would take the other side of a NULL
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
