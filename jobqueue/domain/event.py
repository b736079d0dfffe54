"""What the stream of events carries beside a job's own log."""

from dataclasses import dataclass
from datetime import datetime

from jobqueue.domain.job import JobEvent


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A transition on its way out; ``traceparent`` is the W3C trace context of its job."""

    event: JobEvent
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """An event that Kafka refused for good, with the ``cause`` of the refusal."""

    event: JobEvent
    cause: str
    parked_at: datetime
    resending: bool
    """An operator asked for it to be sent again, and it was not yet."""
