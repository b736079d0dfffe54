"""A job as it is asked for, as it is seen, and what happened to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from jobqueue.domain.state import JobStatus, Reason, event_type


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A submission, as sent. ``None`` means "not said": the queue's default applies.

    Durations are seconds. Give ``delay_s`` or ``not_before`` (timezone-aware), not both.
    """

    queue: str
    payload: bytes = field(default=b"", repr=False)
    type: str | None = None
    priority: int = 0
    max_retries: int | None = None
    ttl_s: float | None = None
    delay_s: float | None = None
    not_before: datetime | None = None
    timeout_s: float | None = None
    idempotency_key: str | None = None
    tenant: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    trace_context: Mapping[str, str] = field(default_factory=dict)


class Submitted(NamedTuple):
    """The answer to one submission; ``existing`` when its idempotency key was known."""

    job_id: UUID
    existing: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running attempt says it is; ``percent`` is 0 to 100. For people only."""

    percent: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is now. Times are timezone-aware, by the database's clock."""

    job_id: UUID
    queue: str
    type: str | None
    status: JobStatus
    reason: Reason
    priority: int
    attempt: int
    retry_count: int
    max_retries: int
    created_at: datetime
    payload: bytes = field(default=b"", repr=False)
    result: bytes | None = field(default=None, repr=False)
    result_truncated: bool = False
    last_error: str | None = None
    worker_id: str | None = None
    not_before: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    ttl_s: float | None = None
    timeout_s: float | None = None
    idempotency_key: str | None = None
    tenant: str = ""
    cancel_requested: bool = False
    progress: Progress | None = None  # only while it is RUNNING, and only if it said so
    labels: Mapping[str, str] = field(default_factory=dict)
    trace_context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One transition: immutable, numbered 1, 2, 3 … per job."""

    event_id: int
    job_id: UUID
    queue: str
    sequence: int
    from_status: JobStatus | None
    to_status: JobStatus
    at: datetime
    reason: Reason
    attempt: int
    worker_id: str | None = None
    detail: str | None = None

    @property
    def type(self) -> str:
        """The event type, such as ``job.started``."""
        return event_type(self.from_status, self.to_status)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; empty fields match everything."""

    queue: str | None = None
    type: str | None = None
    statuses: frozenset[JobStatus] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs, without payloads and results. An empty token: this is the last page.

    Others may have fewer jobs than were asked for, or none.
    """

    jobs: tuple[Job, ...]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class EventPage:
    """One page of the transitions of a job, in order. An empty token: this is the last page."""

    events: tuple[JobEvent, ...]
    next_page_token: str = ""


class CancelOutcome(StrEnum):
    """What became of a job that was to be cancelled."""

    CANCELLED = "CANCELLED"  # it is DEAD_LETTERED
    CANCEL_REQUESTED = "CANCEL_REQUESTED"  # it runs; its handler is being stopped
