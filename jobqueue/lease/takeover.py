"""Ends leases that their workers no longer hold up, on behalf of the reaper (R-3.9, R-4.6).

A page is locked, decided by the same rules as a worker's own outcome, and settled in one
transaction. The lock re-tests that the lease is expired, so a renewal, a settle or a fresh claim
in between wins. Needs no handler, no workers row and no other replica's word.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from jobqueue.domain.outcome import (
    Failed,
    LeaseExpired,
    Outcome,
    Settlement,
    decide,
)
from jobqueue.domain.state import Reason
from jobqueue.errors import JobQueueError
from jobqueue.lease.hot import TRANSIENT
from jobqueue.lease.signals import LEASES_EXPIRED, TAKEOVER_SKIPPED, LeaseCount, TakeoverSkipped
from jobqueue.lease.tally import tell_settled
from jobqueue.store.faults import translated
from jobqueue.store.leases import (
    ExpiredLease,
    LeaseAnswer,
    lock_expired_leases,
    lock_unstarted_leases,
    settle_leases,
)
from jobqueue.store.pool import Connection, Db, transaction

Lock = Callable[[Db, int, int], Awaitable[list[ExpiredLease]]]
"""Locks a page: connection, after which job, at most how many."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to lose a lease: which rows it concerns, and what outcome it is."""

    lock: Lock
    outcome: Callable[[ExpiredLease], Outcome]


@dataclass(frozen=True, slots=True)
class Page:
    """What one step did. ``ready`` are the queues in which something may be claimed at once.

    That is a job given back, or, whatever became of the one taken, another within max_running.
    """

    taken: int = 0
    ready: frozenset[str] = frozenset()
    complete: bool = True  # nothing is left beyond it


def expired() -> Kind:
    """Leases whose time is over: their worker died, or could not renew."""

    async def lock(db: Db, after: int, limit: int) -> list[ExpiredLease]:
        return await lock_expired_leases(db, after=after, limit=limit)

    return Kind(lock, _lease_expired)


def unstarted(timeout_s: float) -> Kind:
    """Jobs ASSIGNED for longer than ``timeout_s``: their worker renews but never starts them."""

    async def lock(db: Db, after: int, limit: int) -> list[ExpiredLease]:
        return await lock_unstarted_leases(db, timeout_s=timeout_s, after=after, limit=limit)

    def outcome(lease: ExpiredLease) -> Outcome:
        text = f"not started within {timeout_s:g} s by worker {lease.worker_id or 'unknown'}"
        return Failed(text, Reason.ASSIGNMENT_TIMEOUT)

    return Kind(lock, outcome)


class Takeover:
    """A sweep over all leases of one kind, a page a step.

    Pages go by key, so a row that fails is left behind. A page that the database refuses is
    halved until the row at fault stands alone; that one is skipped and tried again by the next
    sweep, and the pages grow again.
    """

    def __init__(self, kind: Kind, *, page_size: int, crash_limit: int) -> None:
        self._kind = kind
        self._page_size = page_size
        self._crash_limit = crash_limit
        self._limit = page_size
        self._after = 0

    async def step(self, connection: Connection) -> Page:
        """Take over one page, in a transaction of its own on ``connection``.

        Raises Unavailable and its like when the database cannot be asked; then nothing happened,
        or what happened is not found again.
        """
        page: list[ExpiredLease] = []
        answers: list[LeaseAnswer] = []
        try:
            with translated():
                async with transaction(connection):
                    page = await self._kind.lock(connection, self._after, self._limit)
                    settlements = [self._decide(lease) for lease in page]
                    if settlements:
                        answers = await settle_leases(
                            connection, worker=None, settlements=settlements
                        )
        except TRANSIENT:
            raise
        except JobQueueError as error:
            if not page:
                raise
            return self._shrink(page, error)
        _tell(page, settlements, answers)
        return self._advance(page)

    def _decide(self, lease: ExpiredLease) -> Settlement:
        jitter = random.random()  # noqa: S311 - no secret
        outcome = self._kind.outcome(lease)
        return decide(lease.charge, outcome, crash_limit=self._crash_limit, jitter=jitter)

    def _advance(self, page: Sequence[ExpiredLease]) -> Page:
        complete = len(page) < self._limit
        self._after = 0 if complete else page[-1].lease.job
        self._limit = min(self._limit * 2, self._page_size)
        return Page(len(page), frozenset(lease.queue for lease in page), complete)

    def _shrink(self, page: Sequence[ExpiredLease], error: JobQueueError) -> Page:
        if len(page) > 1:
            self._limit = len(page) // 2
        else:
            self._after = page[0].lease.job
            TAKEOVER_SKIPPED.emit(TakeoverSkipped(page[0].lease, error))
        return Page(complete=False)


def _tell(
    page: Sequence[ExpiredLease],
    settlements: Sequence[Settlement],
    answers: Sequence[LeaseAnswer],
) -> None:
    pairs = list(zip(page, settlements, strict=True))
    tell_settled(answers, {lease.lease: (lease.queue, s) for lease, s in pairs}, unclear=False)
    expired = Counter(lease.queue for lease, s in pairs if s.reason is Reason.LEASE_EXPIRED)
    for queue, count in expired.items():
        LEASES_EXPIRED.emit(LeaseCount(queue, count))


def _lease_expired(lease: ExpiredLease) -> Outcome:
    worker = lease.worker_id or "unknown"
    text = f"the lease of worker {worker} ran out {lease.overdue_s:.1f} s ago"
    return LeaseExpired(lease.running, text)
