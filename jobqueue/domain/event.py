"""What the stream of events carries beside a job's own log."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from jobqueue.domain.job import JobEvent


class StreamEvent(NamedTuple):
    """A transition on its way out. A plain tuple: tens of thousands may pass in a second."""

    event_id: int
    job_id: UUID
    at: datetime
    detail: str | None
    traceparent: str | None
    """The W3C trace context of its job."""
    queue: str
    sequence: int
    from_status: str | None
    to_status: str
    reason: str
    attempt: int
    worker_id: str | None


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """An event that Kafka refused for good, with the ``cause`` of the refusal."""

    event: JobEvent
    cause: str
    parked_at: datetime
    resending: bool
    """An operator asked for it to be sent again, and it was not yet."""
