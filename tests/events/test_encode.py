"""What an event looks like on the way, and in which waves events go."""

import dataclasses
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from jobqueue.domain.event import StreamEvent
from jobqueue.domain.job import JobEvent
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.events.encode import event_message, records
from jobqueue.events.pages import encoded
from jobqueue.v1 import job_pb2

LIMIT = 1_000
AT = datetime(2026, 1, 2, 3, 4, 5, 67, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def event(event_id: int = 1, **fields: object) -> StreamEvent:
    made = {
        "event_id": event_id,
        "job_id": uuid4(),
        "at": AT,
        "detail": None,
        "traceparent": None,
        "queue": "q",
        "sequence": 1,
        "from_status": None,
        "to_status": "PENDING",
        "reason": "SUBMITTED",
        "attempt": 0,
        "worker_id": None,
    }
    return StreamEvent(**(made | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("detail", ["x" * 5_000, "€" * 5_000, "𝄞" * 2_000])
def test_a_detail_that_makes_an_event_too_large_is_cut_between_characters_and_marked(
    detail: str,
) -> None:
    (value,) = [each.value for each in records([event(detail=detail)], LIMIT)]
    shown = job_pb2.JobEvent.FromString(value).detail
    assert LIMIT - 10 < len(value) <= LIMIT
    assert shown.endswith("… [truncated]")
    assert detail.startswith(shown.removesuffix(" … [truncated]"))


def test_an_event_within_the_limit_is_whole() -> None:
    (made,) = records([event(detail="x" * 100)], LIMIT)
    assert job_pb2.JobEvent.FromString(made.value).detail == "x" * 100


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
    bare = event(2, worker_id=None)
    one, two = records([StreamEvent(**fields, traceparent=TRACE), bare], LIMIT)
    assert job_pb2.JobEvent.FromString(one.value) == event_message(full)
    assert one.headers["ce_time"] == "2026-01-02T03:04:05.000067Z"
    assert one.headers["traceparent"] == TRACE
    shown = job_pb2.JobEvent.FromString(two.value)
    assert (shown.event_id, shown.HasField("worker_id"), shown.HasField("detail")) == (
        2,
        False,
        False,
    )
    assert "traceparent" not in two.headers


def test_of_one_job_one_event_is_in_a_wave_and_its_later_ones_are_in_later_waves() -> None:
    one, two = uuid4(), uuid4()
    events = [event(n, job_id=job) for n, job in enumerate([one, two, one, one, two])]
    waves = encoded(events, LIMIT)
    assert [[each.event_id for each in wave.events] for wave in waves] == [[0, 1], [2, 4], [3]]
    for wave in waves:
        assert [r.headers["ce_id"] for r in wave.records] == [str(e.event_id) for e in wave.events]
