"""Ways to break what workers and the reaper send, and the tests that must notice."""

from tools.mutants.mutant import Mutant

_LEASES = "alembic/sql/0001/08_leases.sql"
_SQL = "jobqueue/store/sql"

_COMPLETE = """WHERE l.id = ANY (p_ids) AND l.id = i.id AND l.token = i.token
          AND l.worker_id = p_worker AND l.running"""
_SETTLE = """WHERE l.id = ANY (p_ids) AND l.id = i.id AND l.token = i.token
          AND (p_worker IS NULL OR l.worker_id = p_worker)"""
_SETTLES = "tests/store/test_settle.py"
_CLAIMS = "tests/store/test_claim.py"
_REAPS = "tests/store/test_reap.py"
_STARTS = "tests/store/test_start.py"
_DUE = "tests/store/test_due.py"

WORK = (
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
        _COMPLETE.replace("l.worker_id = p_worker AND ", ""),
        _SETTLES,
    ),
    Mutant(
        "a job that was never started may complete",
        _LEASES,
        _COMPLETE,
        _COMPLETE.replace(" AND l.running", ""),
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
    Mutant(
        "an end goes by the job's id only",
        _LEASES,
        _SETTLE,
        "WHERE l.id = ANY (p_ids) AND l.id = i.id",
        _SETTLES,
    ),
    Mutant(
        "a start answers for the job's new lease",
        _LEASES,
        "y.token = i.token\n        AND y.worker_id = p_worker AND y.running;",
        "y.worker_id = p_worker AND y.running;",
        _STARTS,
    ),
    Mutant(
        "a start ends what another lease holds",
        _LEASES,
        "WHERE l.worker_id = p_worker AND NOT l.running",
        "WHERE NOT l.running",
        _STARTS,
    ),
    Mutant(
        "lost outcomes are told as recorded",
        _LEASES,
        "IF cardinality(ids) IS DISTINCT FROM cardinality(p_ids) THEN",
        "IF false THEN",
        _SETTLES,
    ),
    Mutant(
        "the reaper's ends look like the worker's",
        _LEASES,
        "CASE WHEN p_worker IS NOT NULL THEN l.token END AS ended_token",
        "l.token AS ended_token",
        f"{_SETTLES} {_REAPS}",
    ),
    Mutant(
        "leases are locked in whatever order they are named",
        _LEASES,
        "            ORDER BY t.id\n",
        "",
        "tests/races/test_lock_order.py",
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
        f"{_REAPS} tests/races/test_reap.py",
    ),
    Mutant(
        "renewals extend nothing",
        f"{_SQL}/renew_leases.sql",
        "SET expires_at = clock_timestamp() + make_interval(secs => $4::float8)",
        "SET expires_at = expires_at + make_interval(secs => $4::float8 * 0)",
        "tests/store/test_renew.py",
    ),
    Mutant(
        "a start extends no lease",
        _LEASES,
        "seq = l.seq + 1,\n"
        "            expires_at = clock_timestamp() + make_interval(secs => p_lease_s)",
        "seq = l.seq + 1",
        _STARTS,
    ),
    Mutant(
        "leases that run are taken for unstarted",
        f"{_SQL}/lock_unstarted_leases.sql",
        "NOT l.running AND ",
        "",
        _REAPS,
    ),
    # Claims.
    Mutant(
        "a claim waits for rows that others hold",
        _LEASES,
        "FOR UPDATE SKIP LOCKED",
        "FOR UPDATE",
        f"{_CLAIMS} tests/races/test_claimer.py",
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
        f"{_CLAIMS} tests/races/test_claimer.py",
    ),
    Mutant(
        "the youngest job comes first",
        _LEASES,
        "ORDER BY r.ready_at, r.id\n                    LIMIT",
        "ORDER BY r.ready_at DESC, r.id\n                    LIMIT",
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
        "FROM b WHERE running",
        "FROM b WHERE false",
        _CLAIMS,
    ),
    Mutant(
        "jobs of one moment come in any order",
        _LEASES,
        "ORDER BY r.ready_at, r.id\n                    LIMIT",
        "ORDER BY r.ready_at, r.id DESC\n                    LIMIT",
        _CLAIMS,
    ),
    Mutant(
        "a claim to run counts no attempt",
        _LEASES,
        "attempt + running::int, p_worker",
        "attempt, p_worker",
        _CLAIMS,
    ),
    Mutant(
        "jobs are started that nobody here can run",
        _LEASES,
        "ELSE j.type = ANY (p_types) END AS running",
        "ELSE true END AS running",
        _CLAIMS,
    ),
    Mutant(
        "a limited queue is counted without its lock",
        f"{_SQL}/lock_queue.sql",
        "\nFOR NO KEY UPDATE",
        "",
        "tests/races/test_claimer.py",
    ),
    # Ends.
    Mutant(
        "an attempt of a month cannot end",
        _LEASES,
        "least(date_part('epoch', at - started_at) * 1000, 2147483647)::int",
        "(date_part('epoch', at - started_at) * 1000)::int",
        _SETTLES,
    ),
    Mutant(
        "a cancel that came in time is forgotten",
        _LEASES,
        "CASE WHEN l.cancel_requested THEN 'DEAD' ELSE i.fate END AS fate",
        "i.fate AS fate",
        _SETTLES,
    ),
    Mutant(
        "a cancel that overtakes a failure is charged",
        _LEASES,
        "CASE WHEN l.cancel_requested THEN l.retries ELSE i.retries END AS retries",
        "i.retries AS retries",
        _SETTLES,
    ),
    Mutant(
        "what is handed back goes to the end of the line",
        _LEASES,
        "SELECT id, ready_at, ttl_expires_at, queue_id, seq + 2",
        "SELECT id, at, ttl_expires_at, queue_id, seq + 2",
        _SETTLES,
    ),
    # Remote workers, and who they are.
    Mutant(
        "hints put off a full stream's look for room",
        "jobqueue/lease/outlet.py",
        "if not self._full:  #",
        "if self._room:  #",
        "tests/process/test_worker_streams.py",
    ),
    Mutant(
        "a job whose start fails once claims have ended is kept",
        "jobqueue/remote/leases.py",
        "        if self._claiming:",
        "        if self._types:",
        "tests/process/test_remote_claims.py",
    ),
    Mutant(
        "a server takes back what its worker has started",
        f"{_SQL}/lock_assigned_leases.sql",
        "WHERE NOT l.running\n",
        "",
        "tests/races/test_hand_back.py",
    ),
    Mutant(
        "a server takes back what its worker is starting",
        f"{_SQL}/lock_assigned_leases.sql",
        "\nFOR UPDATE OF l",
        "",
        "tests/races/test_hand_back.py",
    ),
    Mutant(
        "a beat goes by the row that it found before it waited",
        f"{_SQL}/beat_worker.sql",
        "    FOR NO KEY UPDATE\n",
        "",
        "tests/store/test_workers.py",
    ),
    Mutant(
        "a worker that got another number goes on",
        "jobqueue/lease/keeper.py",
        "elif known != worker:",
        "elif known < 0:",
        "tests/process/test_lost_registration.py",
    ),
    Mutant(
        "a connection is lent on between the halves of a statement",
        "jobqueue/store/pool.py",
        "if any(failure) and",
        "if False and",
        "tests/store/test_pool.py",
    ),
)
