-- Moves due jobs from scheduled to ready; FAILED ones get their event, delayed ones stay PENDING.
-- Skips what another replica is moving. Returns for each queue how many became ready, how many of
-- them had FAILED, whether it is paused (then nobody needs a wake-up after the commit), and for how many
-- seconds the latest of them had been due.
-- A row whose events were counted by hand to where no number is left is passed by: it would fail the
-- batch, again and again.
-- $1 limit int · $2 none that has been due for more seconds, NULL: any float8. Relies on
-- scheduled_due. ctid is safe: no row of scheduled is ever updated.
WITH c AS MATERIALIZED (
    SELECT s.ctid FROM jobqueue.scheduled s
    WHERE s.due_at <= now() AND s.seq < 2147483647
      AND s.due_at >= coalesce(now() - make_interval(secs => $2::float8), '-infinity')
    ORDER BY s.due_at LIMIT $1::int FOR UPDATE SKIP LOCKED
), d AS (
    DELETE FROM jobqueue.scheduled s USING c WHERE s.ctid = c.ctid
    RETURNING s.id, s.due_at, s.expires_at, s.queue_id, s.seq, s.attempt, s.reason, s.priority,
              s.retries, s.crashes, s.handbacks, s.unhandled, s.failed
), r AS (
    INSERT INTO jobqueue.ready (id, ready_at, expires_at, queue_id, seq, attempt, reason,
        priority, retries, crashes, handbacks, unhandled)
    SELECT id, due_at, expires_at, queue_id, seq + failed::int, attempt,
           CASE WHEN failed THEN 'RETRY_DUE' ELSE reason END, priority, retries, crashes,
           handbacks, unhandled
    FROM d
), e AS (
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt)
    SELECT id, queue_id, seq + 1, 'FAILED', 'PENDING', 'RETRY_DUE', attempt
    FROM d WHERE failed ORDER BY id
)
SELECT q.name AS queue, count(*) AS count, count(*) FILTER (WHERE d.failed) AS failed,
       bool_or(q.paused) AS paused,
       date_part('epoch', now()) - date_part('epoch', max(d.due_at)) AS overdue_s
FROM d JOIN jobqueue.queues q ON q.queue_id = d.queue_id
GROUP BY q.name;
