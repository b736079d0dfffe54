"""Statements on leases, one function each. Only the lease room may import this."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from jobqueue.domain.job import Progress
from jobqueue.domain.lease import Lease, LeasedJob, Renewal, new_lease
from jobqueue.domain.outcome import Charge, Completed, Fate, Settlement
from jobqueue.domain.records import record
from jobqueue.store import rows
from jobqueue.store.pool import Db
from jobqueue.store.statements import statement

_CLAIM = statement("claim_jobs")
_LOCK_QUEUE = statement("lock_queue")
_COUNT = statement("count_leases")
_START = statement("start_leases")
_RENEW = statement("renew_leases")
_COMPLETE = statement("complete_leases")
_SETTLE = statement("settle_leases")
_FIND_ENDED = statement("find_ended_leases")
_LIST = statement("list_leases")
_PROGRESS = statement("note_progress")
_LOOK_UP = statement("look_up_leases")
_CANCELLED = statement("list_cancelled_leases")
_LOCK_ASSIGNED = statement("lock_assigned_leases")
_LOCK_EXPIRED = statement("lock_expired_leases")
_LOCK_UNSTARTED = statement("lock_unstarted_leases")


@dataclass(frozen=True, slots=True)
class Probe:
    """One place a claim looks at: at most ``quota`` jobs of this queue and priority.

    ``untyped`` tells whether this worker can run a job of the queue that has no type. A later
    probe of the same place must ``skip`` the quota of the earlier one. Jobs that have been ready
    for longer than ``within_s`` seconds are not looked at; None looks at all.
    """

    queue: str
    priority: int
    quota: int
    untyped: bool
    skip: int = 0
    within_s: float | None = None


@dataclass(frozen=True, slots=True)
class QueueRoom:
    """How many jobs of a limited queue may be held, and how many are."""

    max_running: int | None
    running: int


@record
class LeaseAnswer:
    """What a statement did with one lease.

    ``fresh`` is False when an earlier try did it, or nothing was done. ``cancelled`` tells that an
    outcome was turned into CANCELLED. A start names the ``queue``, and how long the job had been
    ready, where that is known.
    """

    lease: Lease
    state: Literal["started", "expired", "settled", "lost"]
    fresh: bool = True
    cancelled: bool = False
    queue: str = ""
    waited_s: float | None = None


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease of a worker as the table has it."""

    lease: Lease
    charge: Charge
    queue: str
    running: bool


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """A lease to be taken back; ``overdue_s`` seconds past its time."""

    lease: Lease
    charge: Charge
    queue: str
    running: bool
    worker_id: str | None
    overdue_s: float


async def claim_jobs(  # noqa: PLR0913 - one argument a parameter of the statement
    db: Db,
    *,
    worker: int,
    probes: Sequence[Probe],
    n: int,
    types: Sequence[str],
    lease_s: float,
    running: bool,
    limited: Sequence[str] = (),
) -> list[LeasedJob]:
    """Claim at most ``n`` jobs, visiting the probes in order, under leases of ``lease_s`` seconds.

    Returned in the order in which they should run. A job whose type is not in ``types`` comes
    back with ``running`` False whatever was asked. Not safe to repeat after an unclear commit:
    leases nobody knows are found by ``list_leases``.
    """
    found = await db.fetch(
        _CLAIM,
        [p.queue for p in probes],
        [p.priority for p in probes],
        [p.quota for p in probes],
        [p.untyped for p in probes],
        [p.skip for p in probes],
        [p.within_s for p in probes],
        n,
        worker,
        lease_s,
        running,
        limited,
        types,
    )
    return [rows.leased_job(row) for row in found]


async def lock_queue(db: Db, queue: str) -> QueueRoom:
    """Lock a limited queue for this transaction and count what it holds.

    ``max_running`` is None when the queue is not limited (any more), paused or gone. The claim
    must be a later statement of the same transaction.
    """
    limit = await db.fetchval(_LOCK_QUEUE, queue)
    if limit is None:
        return QueueRoom(None, 0)
    return QueueRoom(limit, await db.fetchval(_COUNT, queue))


async def start_leases(
    db: Db, *, worker: int, leases: Sequence[Lease], lease_s: float
) -> list[LeaseAnswer]:
    """Start prefetched jobs: started, expired (its TTL ended; it is dead-lettered) or lost."""
    found = await db.fetch(_START, *_pairs(leases), worker, lease_s)
    return [
        LeaseAnswer(
            _lease(r),
            r["state"],
            r["fresh"],
            queue=r["queue"] or "",
            waited_s=r["waited_s"],
        )
        for r in found
    ]


async def renew_leases(
    db: Db, *, worker: int, leases: Sequence[Lease], lease_s: float
) -> list[Renewal]:
    """Extend leases to ``lease_s`` seconds from now."""
    found = await db.fetch(_RENEW, *_pairs(leases), worker, lease_s)
    return [Renewal(_lease(r), r["state"], r["cancel_requested"]) for r in found]


async def settle_leases(
    db: Db, *, worker: int | None, settlements: Sequence[Settlement]
) -> list[LeaseAnswer]:
    """End leases: settled, or lost. ``worker`` None settles as the reaper, whoever holds them.

    Of two settlements of one lease the first counts. Safe for a worker to repeat after an unclear
    commit: it then hears of its own success, unless the job is PENDING again.
    """
    first = {s.lease: s for s in reversed(settlements)}
    done = {
        s.lease: Completed(s.result, s.result_truncated)
        for s in first.values()
        if s.fate is Fate.DONE
    }
    others = [s for s in first.values() if s.fate is not Fate.DONE]
    ended: dict[Lease, bool] = {}
    if done:
        ended = dict.fromkeys(done.keys() - await _complete(db, worker, done), False)
    if others:
        ended |= await _settle(db, worker, others)
    known = await _find_ended(db, first.keys() - ended.keys())
    return [
        LeaseAnswer(
            lease,
            "settled" if lease in ended or lease in known else "lost",
            lease in ended,
            ended.get(lease, False),
        )
        for lease in first
    ]


async def complete_leases(
    db: Db, *, worker: int, done: Mapping[Lease, Completed]
) -> AbstractSet[Lease]:
    """End leases as DONE; return those that are: now, or by an earlier try. The others are lost.

    The same as ``settle_leases`` for the common end, without what only the others need.
    """
    missed = await _complete(db, worker, done)
    return done.keys() - missed | await _find_ended(db, missed) if missed else done.keys()


async def _complete(
    db: Db, worker: int | None, done: Mapping[Lease, Completed]
) -> AbstractSet[Lease]:
    """Return the leases that this did not end."""
    jobs, tokens = zip(*done, strict=True)
    results = [outcome.result for outcome in done.values()]
    truncated = [outcome.truncated for outcome in done.values()]
    missed = await db.fetch(
        _COMPLETE,
        jobs,
        tokens,
        # Most jobs have no result; to send that of each costs more than the rest of this call.
        results if results.count(None) < len(results) else (),
        truncated if any(truncated) else (),
        worker,
    )
    return frozenset(map(new_lease, missed))


async def _settle(
    db: Db, worker: int | None, settlements: Sequence[Settlement]
) -> dict[Lease, bool]:
    """Return, of each lease that was ended, whether as CANCELLED."""
    found = await db.fetch(
        _SETTLE,
        [s.lease.job for s in settlements],
        [s.lease.token for s in settlements],
        [s.fate for s in settlements],
        [s.reason for s in settlements],
        [s.dead_reason for s in settlements],
        [s.delay_s for s in settlements],
        [s.counters.retries for s in settlements],
        [s.counters.crashes for s in settlements],
        [s.counters.handbacks for s in settlements],
        [s.counters.unhandled for s in settlements],
        [s.detail for s in settlements],
        worker,
    )
    return {_lease(row): row["cancelled"] for row in found}


async def _find_ended(db: Db, leases: AbstractSet[Lease]) -> AbstractSet[Lease]:
    if not leases:
        return frozenset()
    return frozenset(map(_lease, await db.fetch(_FIND_ENDED, *_pairs(list(leases)))))


async def list_leases(db: Db, *, worker: int, older_than_s: float) -> list[HeldLease]:
    """Return the leases of ``worker`` that were claimed more than ``older_than_s`` seconds ago."""
    found = await db.fetch(_LIST, worker, older_than_s)
    return [_held(row) for row in found]


async def look_up_leases(db: Db, *, worker: int, leases: Sequence[Lease]) -> list[HeldLease]:
    """Return those of ``leases`` that ``worker`` holds."""
    return [_held(row) for row in await db.fetch(_LOOK_UP, *_pairs(leases), worker)]


async def lock_assigned_leases(db: Db, *, worker: int, leases: Sequence[Lease]) -> list[HeldLease]:
    """Lock those of ``leases`` that ``worker`` holds and has not started, for this transaction."""
    found = await db.fetch(_LOCK_ASSIGNED, *_pairs(leases), worker)
    return [_held(row) for row in found]


async def list_cancelled_leases(db: Db, leases: Sequence[Lease]) -> list[Lease]:
    """Return those of ``leases`` that an operator asked to end."""
    found = await db.fetch(_CANCELLED, *_pairs(leases))
    return [_lease(row) for row in found]


async def note_progress(db: Db, *, worker: int, progress: Mapping[Lease, Progress]) -> list[Lease]:
    """Keep how far running attempts are; return those that ``worker`` runs."""
    words = progress.values()
    found = await db.fetch(
        _PROGRESS,
        *_pairs(list(progress)),
        [word.percent for word in words],
        [word.message for word in words],
        worker,
    )
    return [_lease(row) for row in found]


async def lock_expired_leases(db: Db, *, after: int, limit: int) -> list[ExpiredLease]:
    """Lock a page of expired leases for this transaction, by job above ``after``."""
    return [_expired(r) for r in await db.fetch(_LOCK_EXPIRED, after, limit)]


async def lock_unstarted_leases(
    db: Db, *, timeout_s: float, after: int, limit: int
) -> list[ExpiredLease]:
    """Lock a page of jobs that are ASSIGNED for more than ``timeout_s`` seconds."""
    return [_expired(r) for r in await db.fetch(_LOCK_UNSTARTED, after, limit, timeout_s)]


def _held(row: rows.Row) -> HeldLease:
    return HeldLease(_lease(row), rows.charge(row), row["queue"], row["running"])


def _expired(row: rows.Row) -> ExpiredLease:
    return ExpiredLease(
        _lease(row),
        rows.charge(row),
        row["queue"],
        row["running"],
        row["worker_id"],
        row["overdue_s"],
    )


def _lease(row: rows.Row) -> Lease:
    return Lease(row["job"], row["token"])


def _pairs(leases: Sequence[Lease]) -> tuple[list[int], list[int]]:
    return [lease.job for lease in leases], [lease.token for lease in leases]
