-- RUNNING→DONE: each row moves from leases to finished, with the event of that move. The common
-- end, and so a statement of its own; settle_leases has the others.
-- Returns the pairs that it ended. A missing one was lost, or ended by an earlier try.
-- Matches id + token + worker, never ctid: a renewal makes a new version of the row. May wait for
-- a row of leases, as settle_leases.
-- = ANY (ARRAY[…]) where = would do: it can be looked up by key, and by nothing else, whatever
-- the planner believes of the sizes (docs/adr/0012).
-- One item each: $1 ids bigint[], $2 tokens bigint[], $3 results bytea[], $4 truncated bool[]
-- $5 worker int
WITH i AS MATERIALIZED (
    SELECT DISTINCT ON (t.id, t.token) t.*
    FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bool[])
             WITH ORDINALITY t (id, token, result, truncated, ord)
    ORDER BY t.id, t.token, t.ord
), d AS (
    DELETE FROM jobqueue.leases l USING i
    WHERE l.id = ANY (ARRAY[i.id]) AND l.token = i.token AND l.worker_id = $5::int AND l.running
    RETURNING l.id, l.token, l.queue_id, l.started_at, l.seq, l.attempt, l.worker_id, l.retries,
              i.result, i.truncated, clock_timestamp() AS at
), f AS (
    INSERT INTO jobqueue.finished (id, started_at, finished_at, token, queue_id, seq, attempt,
        worker_id, reason, retries, dead, result_truncated, result)
    SELECT id, started_at, at, token, queue_id, seq + 1, attempt, worker_id, 'COMPLETED', retries,
           false, truncated, result
    FROM d
), e AS (
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt,
        token, worker_id, duration_ms, at)
    SELECT id, queue_id, seq + 1, 'RUNNING', 'DONE', 'COMPLETED', attempt, token, worker_id,
           least(date_part('epoch', at - started_at) * 1000, 2147483647)::int, at
    FROM d
)
SELECT id AS job, token FROM d;
