"""What an event looks like on the way, and in which waves events go."""

import dataclasses
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from jobqueue.domain.event import EventGroup, EventKind, StreamEvent
from jobqueue.domain.job import JobEvent
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.events.encode import event_message, records
from jobqueue.events.pages import encoded
from jobqueue.v1 import job_pb2

LIMIT = 1_000
AT = datetime(2026, 1, 2, 3, 4, 5, 67, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def event(event_id: int = 1, **fields: object) -> StreamEvent:
    own = {"event_id": event_id, "job_id": uuid4(), "at": AT, "detail": None, "traceparent": None}
    shared = {
        "queue": "q",
        "sequence": 1,
        "from_status": None,
        "to_status": "PENDING",
        "reason": "SUBMITTED",
        "attempt": 0,
        "worker_id": None,
    }
    given = own | shared | fields
    kind = EventKind(*(given[name] for name in EventKind._fields))  # type: ignore[arg-type]
    return StreamEvent(kind=kind, **{name: given[name] for name in own})  # type: ignore[arg-type]


@pytest.mark.parametrize("detail", ["x" * 5_000, "€" * 5_000, "𝄞" * 2_000])
def test_a_detail_that_makes_an_event_too_large_is_cut_between_characters_and_marked(
    detail: str,
) -> None:
    ((_, value, _),) = records(event(detail=detail).alone(), LIMIT)
    shown = job_pb2.JobEvent.FromString(value).detail
    assert LIMIT - 10 < len(value) <= LIMIT
    assert shown.endswith("… [truncated]")
    assert detail.startswith(shown.removesuffix(" … [truncated]"))


def test_an_event_within_the_limit_is_whole() -> None:
    ((_, value, _),) = records(event(detail="x" * 100).alone(), LIMIT)
    assert job_pb2.JobEvent.FromString(value).detail == "x" * 100


def test_a_value_in_parts_is_the_message_of_its_event() -> None:
    full = JobEvent(
        event_id=2**40,
        job_id=uuid4(),
        queue="q",
        sequence=7,
        from_status=JobStatus.RUNNING,
        to_status=JobStatus.FAILED,
        at=AT,
        reason=Reason.HANDLER_FAILED,
        attempt=3,
        worker_id="w",
        detail="boom",
    )
    fields = {field.name: getattr(full, field.name) for field in dataclasses.fields(full)}
    first = event(**fields, traceparent=TRACE)
    bare = first._replace(event_id=2, at=AT + timedelta(days=1), detail=None, traceparent=None)
    group = EventGroup(first.kind, *zip(first[:-1], bare[:-1], strict=True))  # type: ignore[arg-type]
    (key, one, headers), (_, two, others) = records(group, LIMIT)
    assert job_pb2.JobEvent.FromString(one) == event_message(full)
    assert (key, headers["ce_subject"]) == (str(full.job_id).encode(), str(full.job_id))
    assert (headers["ce_time"], headers["traceparent"]) == ("2026-01-02T03:04:05.000067Z", TRACE)
    shown = job_pb2.JobEvent.FromString(two)
    assert (shown.event_id, shown.HasField("detail")) == (2, False)
    assert shown.timestamp.ToDatetime(UTC) == bare.at
    assert (others["ce_id"], others["ce_time"]) == ("2", "2026-01-03T03:04:05.000067Z")
    assert "traceparent" not in others


def test_of_one_job_one_event_is_in_a_wave_and_its_later_ones_are_in_later_waves() -> None:
    one, two = uuid4(), uuid4()
    events = [event(n, job_id=job) for n, job in enumerate([one, two, one, one, two])]
    waves = encoded([each.alone() for each in events], LIMIT)
    assert [wave.event_ids for wave in waves] == [[0, 1], [2, 4], [3]]
    for wave in waves:
        assert [headers["ce_id"] for *_, headers in wave.records] == list(map(str, wave.event_ids))
