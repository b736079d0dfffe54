"""What the stream of events carries beside a job's own log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from jobqueue.domain.job import JobEvent


class EventKind(NamedTuple):
    """What many events have in common. Of one job there is only one event of a kind."""

    queue: str
    sequence: int
    from_status: str | None
    to_status: str
    reason: str
    attempt: int
    worker_id: str | None


class StreamEvent(NamedTuple):
    """A transition on its way out."""

    event_id: int
    job_id: UUID
    at: datetime
    detail: str | None
    traceparent: str | None
    """The W3C trace context of its job."""
    kind: EventKind

    def alone(self) -> "EventGroup":
        """Return a group of this one."""
        event_id, job_id, at, detail, traceparent, kind = self
        return EventGroup(kind, [event_id], [job_id], [at], [detail], [traceparent])


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events of one kind, field by field: tens of thousands may pass in a second."""

    kind: EventKind
    event_ids: Sequence[int]
    job_ids: Sequence[UUID]
    ats: Sequence[datetime]
    details: Sequence[str | None]
    traceparents: Sequence[str | None]

    def rows(self) -> Iterator[tuple[int, UUID, datetime, str | None, str | None]]:
        """Return what each has of its own, in the order of the fields."""
        return zip(
            self.event_ids, self.job_ids, self.ats, self.details, self.traceparents, strict=True
        )

    def events(self) -> Iterator[StreamEvent]:
        """Return them one by one."""
        return (StreamEvent(*own, self.kind) for own in self.rows())


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """An event that Kafka refused for good, with the ``cause`` of the refusal."""

    event: JobEvent
    cause: str
    parked_at: datetime
    resending: bool
    """An operator asked for it to be sent again, and it was not yet."""
