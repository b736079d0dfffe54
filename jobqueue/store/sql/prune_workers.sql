-- Removes workers that have been OFFLINE for long, and of the rest the ones longest silent when
-- there are very many: whoever may register may do so under ever new names. Their numbers keep their
-- names for the events, from now on. Locks the names first, as registering does. Returns how many.
-- $1 seconds since the last beat float8 · $2 how many OFFLINE ones stay int
WITH old AS (
    SELECT w.worker_id FROM jobqueue.workers w
    WHERE w.status = 'OFFLINE'
      AND (w.last_beat_at < now() - make_interval(secs => $1::float8)
           OR w.worker_id IN (SELECT o.worker_id FROM jobqueue.workers o WHERE o.status = 'OFFLINE'
                              ORDER BY o.last_beat_at DESC, o.worker_id DESC OFFSET $2::int))
), n AS (
    UPDATE jobqueue.worker_names SET seen_at = clock_timestamp()
    WHERE worker_id IN (SELECT worker_id FROM old)
    RETURNING worker_id
), gone AS (
    DELETE FROM jobqueue.workers w
    USING n
    WHERE w.worker_id = n.worker_id AND w.status = 'OFFLINE'
    RETURNING 1
)
SELECT count(*) FROM gone;
