"""A lease: the right to run one job now, held by a token that never repeats for that job."""

from dataclasses import dataclass, field
from uuid import UUID

from jobqueue.domain.backoff import RetryPolicy


@dataclass(frozen=True, slots=True)
class Lease:
    """The fence of one attempt: internal job key and token. Every later write names both."""

    job: int
    token: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What earlier attempts of this life cost, as the narrow rows carry it (R-3.9)."""

    retries: int = 0  # charged against max_retries
    crashes: int = 0  # leases lost while RUNNING, in a row
    handbacks: int = 0  # leases lost while ASSIGNED, in a row
    unhandled: int = 0  # times in a row no worker had a handler


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A claimed job with everything a worker needs to run and settle it."""

    lease: Lease
    job_id: UUID
    queue: str
    type: str | None
    payload: bytes
    priority: int
    attempt: int
    running: bool  # False: prefetched (ASSIGNED), must be started before it may run
    max_retries: int
    timeout_s: float | None
    labels: dict[str, str] = field(default_factory=dict)
    trace_context: dict[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    policy: RetryPolicy = field(default_factory=RetryPolicy)
