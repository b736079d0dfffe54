"""Ways to break what is around the statements, and the tests that must notice."""

from tools.mutants.mutant import Mutant

_DECIDES = "tests/unit/domain/test_outcome.py tests/unit/domain/test_backoff.py"
_SETTLES = "tests/unit/lease/test_settler.py"
_BOOKS = "tests/unit/lease/test_book.py"

PROGRAMS = (
    # What an end costs.
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
    Mutant(
        "a report does not end what counts in a row",
        "jobqueue/domain/outcome.py",
        "return Counters(retries) if retries else _NO_COST",
        "return charge.counters",
        _DECIDES,
    ),
    Mutant(
        "a job handed back for ever is never stopped",
        "jobqueue/domain/outcome.py",
        "crashed = running or handbacks >= HANDBACK_LIMIT",
        "crashed = running",
        _DECIDES,
    ),
    # Between servers.
    Mutant(
        "a lock that another holds is released",
        "jobqueue/coordination/redis_lock.py",
        "if redis.call('GET', KEYS[1]) == ARGV[1] then",
        "if true then",
        "tests/coordination/test_redis_lock.py",
        nth=2,
    ),
    Mutant(
        "two replicas take one lock",
        "jobqueue/coordination/redis_lock.py",
        "nx=True, px=self._ttl_ms",
        "px=self._ttl_ms",
        "tests/coordination/test_redis_lock.py",
    ),
    Mutant(
        "a holder that was paused trusts its lock",
        "jobqueue/coordination/acting.py",
        "return self._clock.monotonic() < self._trusted_until",
        "return True",
        "tests/coordination/test_acting.py",
    ),
    Mutant(
        "nobody acts while Redis is away",
        "jobqueue/coordination/signals.py",
        "return self in {LockState.UNAVAILABLE, LockState.GIVEN_UP}",
        "return self in {LockState.GIVEN_UP}",
        "tests/coordination/test_acting.py",
    ),
    Mutant(
        "a row that cannot be settled stops the reaper",
        "jobqueue/lease/takeover.py",
        "            self._after = page[0].lease.job\n",
        "",
        "tests/races/test_reap.py",
    ),
    Mutant(
        "events of one job travel together",
        "jobqueue/events/pages.py",
        "turn = turns.get(job, 0)",
        "turn = 0",
        "tests/events/test_relay.py",
    ),
    Mutant(
        "a request that is repeated is another job",
        "jobqueue/submission/submitter.py",
        "derived_job_ids(request_id, count) if request_id else random_job_ids(count)",
        "random_job_ids(count)",
        "tests/store/test_submitter.py",
    ),
    Mutant(
        "trust in a lock counts from the answer, not from the question",
        "jobqueue/coordination/acting.py",
        "self._trusted_until = asked_at + ",
        "self._trusted_until = self._clock.monotonic() + ",
        "tests/coordination/test_acting.py",
    ),
    Mutant(
        "after a full batch the scheduler rests",
        "jobqueue/reaper/scheduler.py",
        "return 0.0 if promoted.count >= self._batch_size else None",
        "return None",
        "tests/races/test_duties.py",
    ),
    # Workers.
    Mutant(
        "jobs that are still arriving are handed back",
        "jobqueue/lease/duties.py",
        "[self._asked[lease] for lease in leases if lease in self._asked]",
        "list(self._asked.values())",
        "tests/races/test_reconciler.py",
    ),
    Mutant(
        "an outcome whose lease was lost is told as recorded",
        "jobqueue/lease/settler.py",
        "self._answer(lost, None, settled=False)",
        "self._answer(lost, None, settled=True)",
        "tests/unit/lease/test_settler.py",
    ),
    Mutant(
        "what a full disk refuses is dropped",
        "jobqueue/store/faults.py",
        "if connection_lost(error) or state in _SPENT:",
        "if connection_lost(error):",
        "tests/unit/store/test_faults.py",
    ),
    Mutant(
        "a lease is believed for ever",
        "jobqueue/lease/book.py",
        "now >= h.trusted_until]",
        "now >= h.trusted_until + 86_400]",
        _BOOKS,
    ),
    Mutant(
        "an attempt past its time keeps its lease",
        "jobqueue/lease/book.py",
        "if h.due_at <= reach and now < h.deadline]",
        "if h.due_at <= reach]",
        _BOOKS,
    ),
    Mutant(
        "one bad outcome takes its whole batch down",
        "jobqueue/lease/settler.py",
        "await self._split(self._left(batch), error)",
        "self._fail(self._left(batch), error)",
        _SETTLES,
    ),
    Mutant(
        "a worker that lost outcomes never claims again",
        "jobqueue/lease/settler.py",
        "self._task = self._trouble = None",
        "self._task = None",
        _SETTLES,
    ),
    Mutant(
        "limited queues are locked in any order",
        "jobqueue/lease/claimer.py",
        "limited = sorted(q.name for q in usable if q.limited and not q.paused)",
        "limited = [q.name for q in usable if q.limited and not q.paused]",
        "tests/races/test_lock_order.py",
    ),
    Mutant(
        "what a program leaves behind lives on",
        "jobqueue/worker/programs.py",
        "    else:\n        await group.end()\n",
        "    else:\n",
        "tests/unit/worker/test_programs.py",
    ),
    Mutant(
        "output costs memory without end",
        "jobqueue/worker/programs.py",
        "        if len(self.kept) > 2 * self._size:\n            self.trim()\n",
        "",
        "tests/unit/worker/test_programs.py",
    ),
    Mutant(
        "an attempt that cannot be ended is reported",
        "jobqueue/worker/executor.py",
        "    if attempt.given_up:\n        return None\n    match",
        "    match",
        "tests/unit/worker/test_handlers.py",
    ),
    Mutant(
        "a claim that is under way outlives its worker's loop",
        "jobqueue/worker/claiming.py",
        "            await end(self._under_way.jobs)",
        "            pass",
        "tests/unit/worker/test_claiming.py",
    ),
)
