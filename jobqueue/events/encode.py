"""An event as Kafka gets it: a protobuf value under CloudEvents headers, keyed by its job (R-6).

A value is a message in parts, put one behind the other, which is how protobuf merges messages: what
many events share is encoded once.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from jobqueue.domain.event import EventGroup, EventKind
from jobqueue.domain.job import JobEvent
from jobqueue.domain.state import JobStatus, event_type
from jobqueue.v1 import job_pb2

SOURCE = "/jobqueue"
CONTENT_TYPE = "application/protobuf"
_MARK = " … [truncated]"
_UNSPECIFIED = "UNSPECIFIED"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = 4_096


Headers: TypeAlias = dict[str, str | bytes | None]
Record: TypeAlias = tuple[bytes, bytes, Headers]
"""One message of the topic: key, value, headers. A plain tuple: the cheapest thing there is."""


class _Shared(NamedTuple):
    """What many events have in common."""

    value: bytes
    headers: Headers
    """With places for what each has of its own: copies of a dictionary grow slowly."""


class _Time:
    """A timestamp that is set again and again; most times lie in the second of the one before."""

    def __init__(self, timestamp: Timestamp) -> None:
        self._timestamp = timestamp
        self._second = _EPOCH
        self._text = ""

    def set(self, at: datetime) -> str:
        """Set it; return it as CloudEvents writes it."""
        age = at - self._second
        if age.days or age.seconds or not self._text:
            self._begin(at.replace(microsecond=0))
        micros = at.microsecond
        self._timestamp.nanos = micros * 1_000
        return f"{self._text}{micros:06}Z"

    def _begin(self, second: datetime) -> None:
        age = second - _EPOCH
        self._second = second
        self._timestamp.seconds = age.days * 86_400 + age.seconds
        self._text = second.strftime("%Y-%m-%dT%H:%M:%S.")


def records(group: EventGroup, limit_bytes: int) -> list[Record]:
    """Return the messages of events; a detail that makes one larger than the limit is cut."""
    own = job_pb2.JobEvent()  # what no other event has; filled anew for each
    serialize, time = own.SerializeToString, _Time(own.timestamp)
    shared, made = _shared(group.kind), []
    for event_id, uuid, at, detail, traceparent in group.rows():
        own.event_id = event_id
        own.job_id = job_id = str(uuid)
        ce_time = time.set(at)
        value = serialize() + shared.value
        if detail:
            value += _detail(detail, limit_bytes - len(value))
        headers = shared.headers.copy()
        headers["ce_id"] = str(event_id)
        headers["ce_subject"] = job_id
        headers["ce_time"] = ce_time
        if traceparent:
            headers["traceparent"] = traceparent
        made.append((job_id.encode(), value, headers))
    return made


@lru_cache(_KINDS)
def _shared(kind: EventKind) -> _Shared:
    was = None if kind.from_status is None else JobStatus(kind.from_status)
    became = JobStatus(kind.to_status)
    message = job_pb2.JobEvent(
        queue=kind.queue,
        type=event_type(was, became),
        sequence=kind.sequence,
        from_status=status_name(was),
        to_status=status_name(became),
        worker_id=kind.worker_id,
        reason=kind.reason,
        attempt=kind.attempt,
    )
    fixed = {
        "content-type": CONTENT_TYPE,
        "ce_specversion": "1.0",
        "ce_source": SOURCE,
        "ce_type": message.type,
    }
    return _Shared(
        message.SerializeToString(), {**fixed, "ce_id": "", "ce_subject": "", "ce_time": ""}
    )


def _detail(detail: str, room_bytes: int) -> bytes:
    """Return the part with the detail; with so much less of it that it fits, and a mark."""
    part = job_pb2.JobEvent(detail=detail).SerializeToString()
    if len(part) <= room_bytes:
        return part
    text = detail.encode()
    kept = max(len(text) + room_bytes - len(part) - len(_MARK.encode()), 0)
    return job_pb2.JobEvent(detail=text[:kept].decode(errors="ignore") + _MARK).SerializeToString()


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
