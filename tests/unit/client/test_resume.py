"""A tail over streams that break: on from where it was, nothing twice, an end in the end."""

import grpc
import pytest
from google.protobuf.message import Message

from jobqueue.client import AsyncClient, Client
from jobqueue.client import resume as resume_module
from jobqueue.client.messages import event as read_event
from jobqueue.client.resume import PATIENCE_S, Resume
from jobqueue.errors import DeadlineExceeded, Internal, Unavailable
from jobqueue.v1 import event_service_pb2 as pb
from jobqueue.v1 import job_pb2
from tests.support.fake_service import JOB_ID, Failure, FakeService

GONE = Failure(grpc.StatusCode.UNAVAILABLE, "max connection age")


def place(name: str) -> pb.TailEventsResponse:
    return pb.TailEventsResponse(place=name)


def event(event_id: int) -> pb.TailEventsResponse:
    made = job_pb2.JobEvent(
        event_id=event_id, job_id=JOB_ID, to_status="JOB_STATUS_PENDING", reason="SUBMITTED"
    )
    return pb.TailEventsResponse(event=made)


async def test_a_tail_goes_on_from_its_last_place_and_tells_no_event_twice(
    client: Client, aclient: AsyncClient, service: FakeService
) -> None:
    streams: tuple[list[Message | Failure], ...] = (
        [place("a"), event(1), place("b"), event(7), event(3), GONE],
        [place("b"), event(3), GONE],
        [place("b"), event(3), event(5), event(7), place("c"), event(9)],
    )
    service.answer("TailEvents", *streams)
    assert [each.event_id for each in client.tail_events("q", after=0)] == [1, 7, 3, 5, 9]
    service.answer("TailEvents", *streams)
    again = [each.event_id async for each in aclient.tail_events("q", after=0)]
    assert again == [1, 7, 3, 5, 9]
    asked = service.asked["TailEvents"]
    assert [each.place for each in asked] == ["", "b", "b"] * 2
    assert [each.after_event_id for each in asked] == [0, 7, 7] * 2
    assert all(each.places and each.queue == "q" for each in asked)


def test_a_tail_that_was_never_told_a_place_ends_with_its_stream(
    client: Client, service: FakeService
) -> None:
    service.answer("TailEvents", [event(1), GONE])
    told = client.tail_events(follow=True)
    assert next(told).event_id == 1
    with pytest.raises(Unavailable, match="connection age"):
        next(told)
    assert len(service.asked["TailEvents"]) == 1


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("told", [[], [event(2)]])
async def test_a_server_that_cannot_go_on_at_a_place_ends_the_tail_before_it_tells_anything_wrong(
    aclient: AsyncClient,
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    told: list[Message | Failure],
    *,
    follow: bool,
) -> None:
    monkeypatch.setattr(resume_module, "PATIENCE_S", 0.3)
    service.answer("TailEvents", [place("a"), event(1), GONE], told)
    tail = aclient.tail_events(after=0, follow=follow)
    assert (await anext(tail)).event_id == 1
    with pytest.raises(Unavailable) as caught:
        await anext(tail)
    assert caught.value.reason == "NO_PLACE"


def test_a_server_that_stays_away_is_told(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume_module, "PATIENCE_S", 0.3)
    service.answer("TailEvents", [place("a"), event(1), GONE], GONE)
    told = client.tail_events(follow=True)
    assert next(told).event_id == 1
    with pytest.raises(Unavailable, match="connection age"):
        next(told)
    assert len(service.asked["TailEvents"]) > 1


def test_an_outage_counts_from_its_own_beginning_and_other_errors_pass_at_once() -> None:
    now = 0.0
    resume = Resume(None, (), None, follow=True, clock=lambda: now)
    resume.news("a")
    for _ in range(3):
        assert resume.pause_s(Internal("a proxy reset the stream")) <= 0.4
        now += PATIENCE_S / 2
        assert resume.pause_s(DeadlineExceeded("failing over")) <= 0.4
        now += PATIENCE_S
        assert resume.news(read_event(event(int(now)).event)) is not None
    resume.pause_s(Unavailable("gone"))
    now += PATIENCE_S
    with pytest.raises(Unavailable):
        resume.pause_s(Unavailable("gone"))
    with pytest.raises(Internal):
        resume.pause_s(Internal("unreadable", reason="UNREADABLE_ANSWER"))
