"""Ways to break what callers, operators, consumers and time do, and the tests that must notice."""

from tools.mutants.mutant import Mutant

_SUBMIT = "alembic/sql/0001/05_submit.sql"
_EVENTS = "alembic/sql/0001/03_events.sql"
_MOVES = "alembic/sql/0001/06_moves.sql"
_SQL = "jobqueue/store/sql"

_SUBMITS = "tests/store/test_submit.py tests/store/test_keys.py"
_DUE = "tests/store/test_due.py"
_OPERATORS = "tests/store/test_operator.py"
_RELAYS = "tests/events/test_relay.py tests/events/test_faults.py"

UPKEEP = (
    # Time moves jobs.
    Mutant(
        "jobs are claimable before they are due",
        f"{_SQL}/promote_jobs.sql",
        "WHERE s.due_at <= now()",
        "WHERE s.due_at <= now() + interval '1 hour'",
        _DUE,
    ),
    Mutant(
        "a retry has no event",
        f"{_SQL}/promote_jobs.sql",
        "FROM d WHERE failed ORDER BY id",
        "FROM d WHERE false ORDER BY id",
        _DUE,
    ),
    Mutant(
        "a time to live ends nothing that waits for its date",
        f"{_SQL}/expire_jobs.sql",
        "WHERE s.expires_at <= now()",
        "WHERE s.expires_at <= now() AND false",
        _DUE,
    ),
    Mutant(
        "two schedulers wait for each other",
        f"{_SQL}/promote_jobs.sql",
        "FOR UPDATE SKIP LOCKED",
        "FOR UPDATE",
        f"{_DUE} tests/races/test_moves.py",
    ),
    Mutant(
        "dead jobs are pruned",
        f"{_SQL}/prune_jobs.sql",
        "NOT page.dead AND ",
        "",
        "tests/store/test_prune.py",
    ),
    # Submissions.
    Mutant(
        "other content under a known key is taken for the same",
        _SUBMIT,
        "WHEN k.job_id <> i.job_id AND k.content_hash = i.hash THEN 'EXISTING'",
        "WHEN k.job_id <> i.job_id THEN 'EXISTING'",
        _SUBMITS,
    ),
    Mutant(
        "a submission has no event",
        _SUBMIT,
        "SELECT id, queue_id, 1, 'PENDING', 'SUBMITTED', 0 FROM j ORDER BY id",
        "SELECT id, queue_id, 1, 'PENDING', 'SUBMITTED', 0 FROM j WHERE false",
        _SUBMITS,
    ),
    Mutant(
        "a job is as old as its transaction",
        _SUBMIT,
        "stamp := clock_timestamp();",
        "stamp := now();",
        _SUBMITS,
    ),
    Mutant(
        "a time to live counts from the submission, not from the date",
        _SUBMIT,
        "coalesce(not_before, created_at) + make_interval(secs => ttl_s)",
        "created_at + make_interval(secs => ttl_s)",
        _SUBMITS,
    ),
    Mutant(
        "an id twice in a flush is two jobs",
        _SUBMIT,
        "i.place > 1 OR EXISTS",
        "EXISTS",
        _SUBMITS,
    ),
    Mutant(
        "a job is stored without the key that went away",
        _SUBMIT,
        "WHEN i.key IS NOT NULL AND k.job_id IS NULL THEN 'MOVED'",
        "",
        _SUBMITS,
    ),
    Mutant(
        "a key that went away is known with other content",
        _SUBMIT,
        "WHEN i.key IS NOT NULL AND k.job_id IS NULL THEN 'MOVED'",
        "WHEN i.key IS NOT NULL AND k.job_id IS NULL THEN 'MISMATCH'",
        "tests/races/test_submissions.py",
    ),
    Mutant(
        "a key is kept for a job whose queue went away",
        _SUBMIT,
        "i.key) IS NOT NULL THEN 'MOVED'",
        "i.key) IS NOT NULL THEN 'NO_QUEUE'",
        "tests/races/test_submissions.py",
    ),
    Mutant(
        "a repeated id takes a key that its job does not have",
        _SUBMIT,
        "'REPEATED' = ANY (known)",
        "false",
        _SUBMITS,
    ),
    Mutant(
        "tenants share their keys",
        _SUBMIT,
        "ON k.tenant = i.tenant AND k.key = i.key",
        "ON k.key = i.key",
        _SUBMITS,
    ),
    Mutant(
        "deleted queues take jobs",
        _SUBMIT,
        "ON q.name = jobqueue.said(p_queue, i.queue) AND q.deleted_at IS NULL",
        "ON q.name = jobqueue.said(p_queue, i.queue)",
        _SUBMITS,
    ),
    # Operators.
    Mutant(
        "a running job is cancelled under its worker",
        _MOVES,
        "DELETE FROM jobqueue.leases WHERE id = job AND NOT running",
        "DELETE FROM jobqueue.leases WHERE id = job",
        _OPERATORS,
    ),
    Mutant(
        "an operator's retry keeps the counters",
        _MOVES,
        "'OPERATOR_RETRY', j.priority, 0, 0, 0, 0",
        "'OPERATOR_RETRY', j.priority, 1, 1, 0, 0",
        _OPERATORS,
    ),
    Mutant(
        "a new life counts its time from the submission",
        _MOVES,
        "clock_timestamp() + make_interval(secs => j.ttl_s),\n                   u.queue_id",
        "j.created_at + make_interval(secs => j.ttl_s),\n                   u.queue_id",
        _OPERATORS,
    ),
    Mutant(
        "a job that is done is retried",
        _MOVES,
        "WHERE o.id = job AND o.dead AND",
        "WHERE o.id = job AND",
        _OPERATORS,
    ),
    Mutant(
        "a retry waits for ever for a row that is held",
        _MOVES,
        "LANGUAGE plpgsql SET lock_timeout = '2s' AS $$",
        "LANGUAGE plpgsql SET lock_timeout = '3min' AS $$",
        _OPERATORS,
        nth=2,
    ),
    Mutant(
        "a cancelled job forgets its retries",
        _MOVES,
        "attempt, worker_id, 'CANCELLED',\n                   retries, true",
        "attempt, worker_id, 'CANCELLED',\n                   0, true",
        _OPERATORS,
    ),
    Mutant(
        "of two updates of a queue one undoes the other",
        f"{_SQL}/update_queue.sql",
        " AND updated_at = $9::timestamptz",
        " AND $9::timestamptz IS NOT NULL",
        "tests/store/test_queues.py",
    ),
    Mutant(
        "a queue with delayed jobs counts as empty",
        f"{_SQL}/delete_queue.sql",
        "        OR EXISTS (SELECT FROM jobqueue.scheduled s JOIN q USING (queue_id))\n",
        "",
        "tests/store/test_queues.py",
    ),
    Mutant(
        "a queue that was deleted by a try without an answer has jobs in it",
        f"{_SQL}/delete_queue.sql",
        " OR EXISTS (SELECT FROM q WHERE deleted_at IS NOT NULL)",
        "",
        "tests/store/test_unclear_moves.py",
    ),
    Mutant(
        "a queue that was made by a try without an answer is somebody else's",
        "jobqueue/submission/queues.py",
        "if made is not None or not repeated:",
        "if True:",
        "tests/store/test_unclear_moves.py",
    ),
    Mutant(
        "an operator's retry of long ago answers for one without an answer",
        "jobqueue/submission/jobs.py",
        "e.sequence > after and ",
        "",
        "tests/store/test_unclear_moves.py",
    ),
    Mutant(
        "a worker's twin is heard",
        f"{_SQL}/beat_worker.sql",
        " AND ($4::text IS NULL OR hostname = $4::text AND pid = $5::int)",
        " AND ($4::text IS NULL OR $5::int IS NOT NULL)",
        "tests/store/test_workers.py",
    ),
    # Events.
    Mutant(
        "the relay goes by ids and misses what commits late",
        f"{_SQL}/read_event_window.sql",
        "AND pg_visible_in_snapshot(t, cur.window_end)",
        "AND false",
        _RELAYS,
    ),
    Mutant(
        "whoever lost the cursor moves it",
        f"{_SQL}/move_event_cursor.sql",
        "AND token = $2::bigint AND window_end",
        "AND $2::bigint IS NOT NULL AND window_end",
        _RELAYS,
    ),
    Mutant(
        "events may be changed",
        _EVENTS,
        "BEFORE UPDATE OR DELETE ON jobqueue.job_events\n",
        "BEFORE DELETE ON jobqueue.job_events\n",
        "tests/store/test_events.py",
    ),
    Mutant(
        "a done job may go on",
        _EVENTS,
        "WHEN 'DEAD_LETTERED' THEN to_status = 'PENDING'",
        "WHEN 'DEAD_LETTERED' THEN to_status = 'PENDING' WHEN 'DONE' THEN true",
        "tests/store/test_events.py",
    ),
    Mutant(
        "events go before every consumer has passed them",
        f"{_SQL}/list_old_partitions.sql",
        "least(now() - make_interval(secs => $1::float8),\n"
        "                        (SELECT min(since) FROM jobqueue.event_cursors))",
        "now() - make_interval(secs => $1::float8)",
        "tests/store/test_partitions.py",
    ),
    Mutant(
        "the guard of the record stays off",
        "alembic/sql/0001/07_partitions.sql",
        "ENABLE ALWAYS TRIGGER job_events_kept_immutable;\n    END IF",
        "DISABLE TRIGGER job_events_kept_immutable;\n    END IF",
        "tests/store/test_partitions.py",
    ),
    Mutant(
        "events of deleted jobs have no name in Kafka",
        _MOVES,
        "SELECT id, job_id, trace_context FROM j\n",
        "SELECT id, job_id, trace_context FROM j WHERE false\n",
        "tests/events/test_relay.py",
    ),
    Mutant(
        "what events need of a job goes before they are sent",
        f"{_SQL}/forget_removed_jobs.sql",
        "WHERE NOT pg_visible_in_snapshot(r.xid, c.snapshot))",
        "WHERE false)",
        "tests/store/test_partitions.py",
    ),
    Mutant(
        "whoever lost the cursor extends its lease",
        f"{_SQL}/extend_event_cursor.sql",
        "AND token = $2::bigint AND expires_at",
        "AND $2::bigint IS NOT NULL AND expires_at",
        "tests/events/test_faults.py",
    ),
    Mutant(
        "jobs of other queues are cancelled with those of a deleted one",
        f"{_SQL}/cancel_queue_jobs.sql",
        "WHERE EXISTS (SELECT FROM q) AND l.queue_id IN (SELECT queue_id FROM q)",
        "WHERE EXISTS (SELECT FROM q)",
        "tests/store/test_queues.py",
    ),
    Mutant(
        "a cursor from before the cluster was set back is trusted",
        f"{_SQL}/take_event_cursor.sql",
        "AND pg_snapshot_xmax(c.snapshot) <= pg_snapshot_xmax(pg_current_snapshot()) AS valid",
        "AS valid",
        "tests/events/test_faults.py",
    ),
    Mutant(
        "events of a long transaction are left behind",
        f"{_SQL}/open_event_window.sql",
        "pg_snapshot_xip(pg_current_snapshot()) x WHERE x < cur.xid)",
        "pg_snapshot_xip(pg_current_snapshot()) x WHERE false)",
        "tests/store/test_cursor.py",
    ),
    Mutant(
        "an event that was resent in vain is sent again for ever",
        f"{_SQL}/park_event.sql",
        ", resend_at = NULL",
        "",
        "tests/store/test_cursor.py",
    ),
    Mutant(
        "a job that kills its workers is made young by each retry",
        f"{_SQL}/promote_jobs.sql",
        "priority, retries, crashes,\n           handbacks, unhandled\n    FROM d",
        "priority, retries, 0,\n           handbacks, unhandled\n    FROM d",
        _DUE,
    ),
    Mutant(
        "a late worker's word on progress is kept",
        f"{_SQL}/note_progress.sql",
        "WHERE l.id = i.id AND l.token = i.token AND l.worker_id",
        "WHERE l.id = i.id AND l.worker_id",
        "tests/store/test_remote.py",
    ),
)
