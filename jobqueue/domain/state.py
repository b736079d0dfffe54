"""The six statuses of a job, the only moves between them, and the reasons for a move.

This table is the contract of R-3.5, R-3.6 and R-3.18. The database holds the same pairs in a
CHECK on ``job_events``; a test compares the two.
"""

from enum import StrEnum


class JobStatus(StrEnum):
    """Where a job is. Each says who moves it on."""

    PENDING = "PENDING"  # a worker's claim, or time (a future not_before, its TTL)
    ASSIGNED = "ASSIGNED"  # its worker starts or releases it; the reaper if that worker is gone
    RUNNING = "RUNNING"  # its worker settles it; the reaper if the lease expires
    DONE = "DONE"  # nobody: terminal until pruned or deleted
    FAILED = "FAILED"  # the scheduler when its backoff is over, or an operator
    DEAD_LETTERED = "DEAD_LETTERED"  # an operator's retry or delete

    @property
    def terminal(self) -> bool:
        """True when nothing but an operator can move the job."""
        return self in TERMINAL


TERMINAL = frozenset({JobStatus.DONE, JobStatus.DEAD_LETTERED})


class Reason(StrEnum):
    """Why a job moved; a closed list. Details go beside it as text."""

    SUBMITTED = "SUBMITTED"
    CLAIMED = "CLAIMED"
    STARTED = "STARTED"
    COMPLETED = "COMPLETED"
    HANDLER_FAILED = "HANDLER_FAILED"
    TIMED_OUT = "TIMED_OUT"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    ASSIGNMENT_TIMEOUT = "ASSIGNMENT_TIMEOUT"
    RELEASED = "RELEASED"
    NO_HANDLER = "NO_HANDLER"
    RETRY_LATER = "RETRY_LATER"
    RETRY_DUE = "RETRY_DUE"
    RETRIES_EXHAUSTED = "RETRIES_EXHAUSTED"
    CRASH_LIMIT = "CRASH_LIMIT"
    REFUSED = "REFUSED"
    TTL_EXPIRED = "TTL_EXPIRED"
    CANCELLED = "CANCELLED"
    OPERATOR_RETRY = "OPERATOR_RETRY"


EVENT_TYPES: dict[tuple[JobStatus | None, JobStatus], str] = {
    (None, JobStatus.PENDING): "job.submitted",
    (JobStatus.PENDING, JobStatus.ASSIGNED): "job.assigned",
    (JobStatus.ASSIGNED, JobStatus.RUNNING): "job.started",
    (JobStatus.RUNNING, JobStatus.DONE): "job.completed",
    (JobStatus.RUNNING, JobStatus.FAILED): "job.failed",
    (JobStatus.ASSIGNED, JobStatus.FAILED): "job.failed",
    (JobStatus.FAILED, JobStatus.PENDING): "job.retried",
    (JobStatus.FAILED, JobStatus.DEAD_LETTERED): "job.dead-lettered",
    (JobStatus.PENDING, JobStatus.DEAD_LETTERED): "job.dead-lettered",
    (JobStatus.ASSIGNED, JobStatus.DEAD_LETTERED): "job.dead-lettered",
    (JobStatus.DEAD_LETTERED, JobStatus.PENDING): "job.revived",
}
"""Every legal move and the type of its event. A pair that is not here cannot be stored."""


def event_type(from_status: JobStatus | None, to_status: JobStatus) -> str:
    """Return the event type of a move, such as ``job.started``.

    Raises KeyError for an illegal pair.
    """
    return EVENT_TYPES[from_status, to_status]
