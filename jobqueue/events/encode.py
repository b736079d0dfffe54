"""An event as Kafka gets it: a protobuf value under CloudEvents headers, keyed by its job (R-6).

A value is a message in parts, put one behind the other, which is how protobuf merges messages: what
many events share is encoded once.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from jobqueue.domain.event import StreamEvent
from jobqueue.domain.job import JobEvent
from jobqueue.domain.state import JobStatus, event_type
from jobqueue.v1 import job_pb2

SOURCE = "/jobqueue"
CONTENT_TYPE = "application/protobuf"
_MARK = " … [truncated]"
_UNSPECIFIED = "UNSPECIFIED"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = 4_096
_SECONDS = 64


class Record(NamedTuple):
    """One message of the topic."""

    key: bytes
    value: bytes
    headers: dict[str, str | bytes | None]


class _Shared(NamedTuple):
    """What many events have in common."""

    value: bytes
    headers: dict[str, str | bytes | None]
    """With places for what each has of its own: copies of a dictionary grow slowly."""


def records(events: Sequence[StreamEvent], limit_bytes: int) -> list[Record]:
    """Return the messages of events; a detail that makes one larger than the limit is cut."""
    scratch = job_pb2.JobEvent()
    return [_record(event, scratch, limit_bytes) for event in events]


def _record(event: StreamEvent, own: job_pb2.JobEvent, limit_bytes: int) -> Record:
    """``own`` is for what no other event has; it is filled anew for each."""
    event_id, uuid, at, detail, traceparent = event[:5]
    age = at - _EPOCH
    second = age.days * 86_400 + age.seconds
    micros = age.microseconds
    job_id = str(uuid)
    own.event_id, own.job_id = event_id, job_id
    timestamp = own.timestamp
    timestamp.seconds, timestamp.nanos = second, micros * 1_000
    shared = _shared(event[5:])
    value = own.SerializeToString() + shared.value
    if detail:
        value += _detail(detail, limit_bytes - len(value))
    headers = shared.headers.copy()
    headers["ce_id"] = str(event_id)
    headers["ce_subject"] = job_id
    headers["ce_time"] = f"{_second(second)}.{micros:06}Z"
    if traceparent:
        headers["traceparent"] = traceparent
    return Record(job_id.encode(), value, headers)


@lru_cache(_KINDS)
def _shared(fields: tuple[str, int, str | None, str, str, int, str | None]) -> _Shared:
    queue, sequence, from_status, to_status, reason, attempt, worker_id = fields
    was = None if from_status is None else JobStatus(from_status)
    kind = event_type(was, JobStatus(to_status))
    message = job_pb2.JobEvent(
        queue=queue,
        type=kind,
        sequence=sequence,
        from_status=status_name(was),
        to_status=status_name(JobStatus(to_status)),
        worker_id=worker_id,
        reason=reason,
        attempt=attempt,
    )
    fixed = {
        "content-type": CONTENT_TYPE,
        "ce_specversion": "1.0",
        "ce_source": SOURCE,
        "ce_type": kind,
    }
    return _Shared(
        message.SerializeToString(), {**fixed, "ce_id": "", "ce_subject": "", "ce_time": ""}
    )


@lru_cache(_SECONDS)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


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
