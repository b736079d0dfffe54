-- Removes workers that have been OFFLINE for long, and of the rest the ones longest silent when
-- there are very many: whoever may register may do so under ever new names.
-- $1 seconds since the last beat float8 · $2 how many OFFLINE ones stay int
DELETE FROM jobqueue.workers w
WHERE w.status = 'OFFLINE'
  AND (w.last_beat_at < now() - make_interval(secs => $1::float8)
       OR w.worker_id IN (SELECT o.worker_id FROM jobqueue.workers o WHERE o.status = 'OFFLINE'
                          ORDER BY o.last_beat_at DESC, o.worker_id DESC OFFSET $2::int))
RETURNING w.worker_id;
