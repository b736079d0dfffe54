"""Ways to break the product, each by one small change, and the tests that must notice."""

from dataclasses import dataclass

_LEASES = "alembic/sql/0001/08_leases.sql"
_SUBMIT = "alembic/sql/0001/05_submit.sql"
_MOVES = "alembic/sql/0001/06_moves.sql"
_SQL = "jobqueue/store/sql"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken promise: ``old`` becomes ``new``, at its ``nth`` place in the file."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    nth: int = 1


_COMPLETE = """WHERE l.id BETWEEN i.id AND i.id AND l.token = i.token AND l.worker_id = p_worker
          AND l.running"""
_SETTLE = """WHERE l.id BETWEEN i.id AND i.id AND l.token = i.token
          AND (p_worker IS NULL OR l.worker_id = p_worker)"""
_SETTLES = "tests/store/test_settle.py"
_CLAIMS = "tests/store/test_claim.py"
_REAPS = "tests/store/test_reap.py"
_STARTS = "tests/store/test_start.py"
_SUBMITS = "tests/store/test_submit.py tests/store/test_keys.py"
_DUE = "tests/store/test_due.py"
_OPERATORS = "tests/store/test_operator.py"
_DECIDES = "tests/unit/domain"

MUTANTS = (
    # Fencing.
    Mutant(
        "a completion does not look at the token",
        _LEASES,
        _COMPLETE,
        _COMPLETE.replace(" AND l.token = i.token", ""),
        _SETTLES,
    ),
    Mutant(
        "a completion does not look at the worker",
        _LEASES,
        _COMPLETE,
        _COMPLETE.replace(" AND l.worker_id = p_worker", ""),
        _SETTLES,
    ),
    Mutant(
        "a job that was never started may complete",
        _LEASES,
        _COMPLETE,
        _COMPLETE.replace("\n          AND l.running", ""),
        _SETTLES,
    ),
    Mutant(
        "a failure does not look at the token",
        _LEASES,
        _SETTLE,
        _SETTLE.replace(" AND l.token = i.token", ""),
        _SETTLES,
    ),
    Mutant(
        "a start does not look at the token",
        _LEASES,
        "l.id BETWEEN i.id AND i.id AND l.token = i.token\n        WHERE l.worker_id = p_worker",
        "l.id BETWEEN i.id AND i.id\n        WHERE l.worker_id = p_worker",
        _STARTS,
    ),
    Mutant(
        "a renewal does not look at the token",
        f"{_SQL}/renew_leases.sql",
        "WHERE l.id = i.id AND l.token = i.token AND l.worker_id = $3::int",
        "WHERE l.id = i.id AND l.worker_id = $3::int",
        "tests/store/test_renew.py",
    ),
    Mutant(
        "tokens repeat",
        _LEASES,
        "nextval('jobqueue.lease_token_seq') AS token",
        "d.seq::bigint AS token",
        f"{_CLAIMS} {_SETTLES}",
    ),
    # Leases and time.
    Mutant(
        "a lease counts from the beginning of its transaction",
        _LEASES,
        "AS token, clock_timestamp() AS at",
        "AS token, now() AS at",
        _CLAIMS,
    ),
    Mutant(
        "leases are taken back before their time",
        f"{_SQL}/lock_expired_leases.sql",
        "WHERE l.expires_at < now() AND",
        "WHERE l.expires_at < now() + interval '1 hour' AND",
        _REAPS,
    ),
    Mutant(
        "the reaper waits for rows that others hold",
        f"{_SQL}/lock_expired_leases.sql",
        "FOR UPDATE OF l SKIP LOCKED",
        "FOR UPDATE OF l NOWAIT",
        f"{_REAPS} tests/races",
    ),
    Mutant(
        "renewals extend nothing",
        f"{_SQL}/renew_leases.sql",
        "SET expires_at = clock_timestamp() + make_interval(secs => $4::float8)",
        "SET expires_at = expires_at + make_interval(secs => $4::float8 * 0)",
        "tests/store/test_renew.py",
    ),
    # Claims.
    Mutant(
        "a claim waits for rows that others hold",
        _LEASES,
        "FOR UPDATE SKIP LOCKED",
        "FOR UPDATE",
        f"{_CLAIMS} tests/races",
    ),
    Mutant(
        "paused queues are claimed from",
        _LEASES,
        "AND NOT o.paused",
        "",
        _CLAIMS,
    ),
    Mutant(
        "limits of queues are passed over",
        _LEASES,
        "AND (o.max_running IS NULL OR o.name = ANY (p_limited))",
        "",
        f"{_CLAIMS} tests/races",
    ),
    Mutant(
        "the youngest job comes first",
        _LEASES,
        "ORDER BY r.ready_at, r.id\n                             LIMIT",
        "ORDER BY r.ready_at DESC, r.id\n                             LIMIT",
        _CLAIMS,
    ),
    Mutant(
        "jobs are started after their time to live",
        _LEASES,
        "AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())",
        "",
        f"{_CLAIMS} {_DUE}",
    ),
    Mutant(
        "a start has no event",
        _LEASES,
        "WHERE k.n = 1 OR b.running",
        "WHERE k.n = 1",
        _CLAIMS,
    ),
    # Ends.
    Mutant(
        "a cancel that came in time is forgotten",
        _LEASES,
        "CASE WHEN l.cancel_requested THEN 'DEAD' ELSE i.fate END AS fate",
        "i.fate AS fate",
        _SETTLES,
    ),
    Mutant(
        "a failed attempt is free",
        "jobqueue/domain/outcome.py",
        "charged = Counters(retries + 1,",
        "charged = Counters(retries,",
        _DECIDES,
    ),
    Mutant(
        "a job may kill any number of workers",
        "jobqueue/domain/outcome.py",
        "if crashed and crashes >= crash_limit:",
        "if crashed and crashes > crash_limit * 1000:",
        _DECIDES,
    ),
    Mutant(
        "a lost lease that was never started is charged",
        "jobqueue/domain/outcome.py",
        "crashed = running or handbacks >= HANDBACK_LIMIT",
        "crashed = True",
        _DECIDES,
    ),
    Mutant(
        "a backoff has no end",
        "jobqueue/domain/backoff.py",
        "min(_grown(policy, max(retry_count, 0)), bounded_delay(policy.max_delay_s))",
        "_grown(policy, max(retry_count, 0))",
        _DECIDES,
    ),
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
    # Events.
    Mutant(
        "the relay goes by ids and misses what commits late",
        f"{_SQL}/read_event_window.sql",
        "AND pg_visible_in_snapshot(t, cur.window_end)",
        "AND false",
        "tests/store/test_events.py tests/events",
    ),
    Mutant(
        "whoever lost the cursor moves it",
        f"{_SQL}/move_event_cursor.sql",
        "AND token = $2::bigint AND window_end",
        "AND $2::bigint IS NOT NULL AND window_end",
        "tests/store/test_events.py tests/events",
    ),
    Mutant(
        "a lock that another holds is released",
        "jobqueue/coordination/redis_lock.py",
        "if redis.call('GET', KEYS[1]) == ARGV[1] then",
        "if true then",
        "tests/coordination",
        nth=2,
    ),
    # Workers.
    Mutant(
        "an outcome whose lease was lost is told as recorded",
        "jobqueue/lease/settler.py",
        "self._answer(lost, None, settled=False)",
        "self._answer(lost, None, settled=True)",
        "tests/unit/lease",
    ),
    Mutant(
        "what a full disk refuses is dropped",
        "jobqueue/store/faults.py",
        "if connection_lost(error) or state in _SPENT:",
        "if connection_lost(error):",
        "tests/unit/store/test_faults.py",
    ),
)
