"""An event as Kafka gets it: a protobuf value under CloudEvents headers, keyed by its job (R-6)."""

from dataclasses import dataclass, replace
from datetime import UTC
from typing import TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from jobqueue.domain.event import StreamEvent
from jobqueue.domain.job import JobEvent
from jobqueue.domain.state import JobStatus
from jobqueue.v1 import job_pb2

SOURCE = "/jobqueue"
CONTENT_TYPE = "application/protobuf"
_MARK = " … [truncated]"
_UNSPECIFIED = "UNSPECIFIED"


Headers: TypeAlias = list[tuple[str, str | bytes | None]]
"""As the producer takes them."""


@dataclass(frozen=True, slots=True)
class Record:
    """One message of the topic."""

    key: bytes
    value: bytes
    headers: Headers


def record(sent: StreamEvent, limit_bytes: int) -> Record:
    """Return the message of an event; a detail that makes it larger than the limit is cut."""
    event = sent.event
    value = event_message(event).SerializeToString()
    if len(value) > limit_bytes and event.detail:
        over = len(value) - limit_bytes
        value = event_message(_shortened(event, over)).SerializeToString()
    return Record(str(event.job_id).encode(), value, _headers(sent))


def event_message(event: JobEvent) -> job_pb2.JobEvent:
    """Return a transition as a message."""
    at = Timestamp()
    at.FromDatetime(event.at)
    return job_pb2.JobEvent(
        event_id=event.event_id,
        job_id=str(event.job_id),
        queue=event.queue,
        type=event.type,
        sequence=event.sequence,
        from_status=status_name(event.from_status),
        to_status=status_name(event.to_status),
        timestamp=at,
        worker_id=event.worker_id,
        reason=event.reason,
        detail=event.detail,
        attempt=event.attempt,
    )


def status_name(status: JobStatus | None) -> str:
    """Return the enum name of a status; unspecified for None."""
    return f"JOB_STATUS_{status or _UNSPECIFIED}"


def _shortened(event: JobEvent, over_bytes: int) -> JobEvent:
    """Return the event with so much less detail, and a mark; whole characters are kept."""
    detail = (event.detail or "").encode()
    kept = max(len(detail) - over_bytes - len(_MARK.encode()), 0)
    return replace(event, detail=detail[:kept].decode(errors="ignore") + _MARK)


def _headers(sent: StreamEvent) -> Headers:
    event = sent.event
    fields = {
        "content-type": CONTENT_TYPE,
        "ce_specversion": "1.0",
        "ce_id": str(event.event_id),
        "ce_source": SOURCE,
        "ce_type": event.type,
        "ce_subject": str(event.job_id),
        "ce_time": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }
    if sent.traceparent:
        fields["traceparent"] = sent.traceparent
    return [(name, text.encode()) for name, text in fields.items()]
