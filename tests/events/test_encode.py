"""What an event looks like on the way, and in which waves events go."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from jobqueue.domain.event import StreamEvent
from jobqueue.domain.job import JobEvent
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.events.encode import record
from jobqueue.events.relay import waves
from jobqueue.v1 import job_pb2

LIMIT = 1_000


def event(event_id: int = 1, **fields: object) -> StreamEvent:
    made = {
        "event_id": event_id,
        "job_id": uuid4(),
        "queue": "q",
        "sequence": 1,
        "from_status": None,
        "to_status": JobStatus.PENDING,
        "attempt": 0,
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "reason": Reason.SUBMITTED,
    }
    return StreamEvent(JobEvent(**(made | fields)))  # type: ignore[arg-type]


@pytest.mark.parametrize("detail", ["x" * 5_000, "€" * 5_000, "𝄞" * 2_000])
def test_a_detail_that_makes_an_event_too_large_is_cut_between_characters_and_marked(
    detail: str,
) -> None:
    value = record(event(detail=detail), LIMIT).value
    shown = job_pb2.JobEvent.FromString(value).detail
    assert LIMIT - 10 < len(value) <= LIMIT
    assert shown.endswith("… [truncated]")
    assert detail.startswith(shown.removesuffix(" … [truncated]"))


def test_an_event_within_the_limit_is_whole() -> None:
    whole = job_pb2.JobEvent.FromString(record(event(detail="x" * 100), LIMIT).value)
    assert whole.detail == "x" * 100


def test_of_one_job_one_event_is_in_a_wave_and_its_later_ones_are_in_later_waves() -> None:
    one, two = uuid4(), uuid4()
    events = [event(n, job_id=job) for n, job in enumerate([one, two, one, one, two])]
    order = [[each.event.event_id for each in wave] for wave in waves(events)]
    assert order == [[0, 1], [2, 4], [3]]
