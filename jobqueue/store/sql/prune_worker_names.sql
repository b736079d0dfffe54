-- Forgets names that no event, lease or outcome can mention any more: not registered, and not
-- seen for twice the time that events and outcomes are kept.
-- $1 seconds float8
DELETE FROM jobqueue.worker_names n
WHERE n.seen_at < now() - make_interval(secs => $1::float8)
  AND NOT EXISTS (SELECT FROM jobqueue.workers w WHERE w.worker_id = n.worker_id)
  AND NOT EXISTS (SELECT FROM jobqueue.leases l WHERE l.worker_id = n.worker_id)
RETURNING n.worker_id;
