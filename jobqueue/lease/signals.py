"""What just happened to leases, for those who count and log it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.runtime.signals import Signal


@dataclass(frozen=True, slots=True)
class LeaseCount:
    """So many leases of one queue."""

    queue: str
    count: int


@dataclass(frozen=True, slots=True)
class LeaseLoss:
    """A worker no longer holds a job it held; ``why`` is for people."""

    lease: Lease
    job_id: UUID
    queue: str
    why: str


@dataclass(frozen=True, slots=True)
class SettleRefused:
    """An outcome could not be stored for what it contains; that is recorded as a failure."""

    lease: Lease
    error: Exception


@dataclass(frozen=True, slots=True)
class AnswerBroke:
    """Who was told what came of this job's settlement raised this: a fault of ours."""

    job: LeasedJob
    error: Exception


@dataclass(frozen=True, slots=True)
class TakeoverSkipped:
    """A lease could not be taken over and was passed by; the next sweep tries it again."""

    lease: Lease
    error: Exception


@dataclass(frozen=True, slots=True)
class ReachChanged:
    """Beats of this worker no longer arrive, for this reason; empty: they arrive again."""

    trouble: str


LEASES_ACQUIRED: Signal[LeaseCount] = Signal("leases_acquired")
LEASES_RENEWED: Signal[LeaseCount] = Signal("leases_renewed")
LEASES_EXPIRED: Signal[LeaseCount] = Signal("leases_expired")
LEASES_LOST: Signal[LeaseLoss] = Signal("leases_lost")
JOBS_STARTED: Signal[Mapping[str, Sequence[float | None]]] = Signal("jobs_started")
"""By queue: jobs that run now, each as the seconds for which it had been ready (None: unknown)."""
RETRIES_CHARGED: Signal[Mapping[str, int]] = Signal("retries_charged")
"""By queue: attempts that ended badly, cost a retry and are to be followed by another."""
QUEUES_MISSING: Signal[frozenset[str]] = Signal("queues_missing")
"""Of the queues that a worker is to serve, those that do not exist (any more)."""
SETTLE_REFUSED: Signal[SettleRefused] = Signal("settle_refused")
ANSWER_BROKE: Signal[AnswerBroke] = Signal("answer_broke")
TAKEOVER_SKIPPED: Signal[TakeoverSkipped] = Signal("takeover_skipped")
REACH_CHANGED: Signal[ReachChanged] = Signal("reach_changed")
