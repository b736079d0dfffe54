-- Forgets names that nothing mentions any more: of workers that ended before the oldest events that are
-- left, by a day for a clock that was set back, and whom no lease, outcome or kept event names. Who is
-- named there counts as seen now, and is looked for again when the events of today are gone: nothing
-- has an index by worker, so outcomes are read whole, but only while there is somebody to look for.
-- Returns how many went.
WITH old AS MATERIALIZED (
    SELECT n.worker_id FROM jobqueue.worker_names n
    WHERE n.seen_at < (
            SELECT min(CASE WHEN c.relname ~ '^job_events_[0-9]{4}w[0-9]{2}$'
                            THEN to_date(right(c.relname, 7), 'IYYY"w"IW') END)::timestamp
                   AT TIME ZONE 'UTC' - interval '1 day'
            FROM pg_class c
            JOIN pg_namespace s ON s.oid = c.relnamespace AND s.nspname = 'jobqueue'
            WHERE c.relkind = 'r')
      AND NOT EXISTS (SELECT FROM jobqueue.workers w WHERE w.worker_id = n.worker_id)
), named AS MATERIALIZED (
    SELECT DISTINCT worker_id FROM jobqueue.leases WHERE EXISTS (SELECT FROM old)
    UNION ALL
    SELECT DISTINCT worker_id FROM jobqueue.finished
    WHERE worker_id IS NOT NULL AND EXISTS (SELECT FROM old)
    UNION ALL
    SELECT DISTINCT worker_id FROM jobqueue.job_events_kept
    WHERE worker_id IS NOT NULL AND EXISTS (SELECT FROM old)
), seen AS (
    UPDATE jobqueue.worker_names n SET seen_at = clock_timestamp()
    FROM old WHERE n.worker_id = old.worker_id AND old.worker_id IN (SELECT worker_id FROM named)
), gone AS (
    DELETE FROM jobqueue.worker_names n
    USING old
    WHERE n.worker_id = old.worker_id AND old.worker_id NOT IN (SELECT worker_id FROM named)
      AND NOT EXISTS (SELECT FROM jobqueue.workers w WHERE w.worker_id = n.worker_id)
    RETURNING 1
)
SELECT count(*) FROM gone;
