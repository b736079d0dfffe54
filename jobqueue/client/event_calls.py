"""Every call about the stream of events as a value; see ``calls``."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from jobqueue.client import messages as read
from jobqueue.client.calls import LIMITS, MAX_PAGE, Call
from jobqueue.domain.event import ParkedEvent
from jobqueue.domain.job import JobEvent
from jobqueue.domain.limits import check, event_faults, name_faults
from jobqueue.errors import FieldViolation, InvalidArgument
from jobqueue.v1 import event_service_pb2 as pb

T = TypeVar("T")


def tail(
    queue: str | None, types: Sequence[str], after: int | None, place: str, *, follow: bool
) -> Call[JobEvent | str]:
    """Send transitions, and in between the place that was reached; the answer is a stream."""
    if queue is not None:
        check(name_faults("queue", queue, LIMITS))
    check(event_faults([after or 0], types, field="after_event_id"))
    request = pb.TailEventsRequest(
        queue=queue or "",
        types=types,
        follow=follow,
        after_event_id=after,
        places=True,
        place=place,
    )
    return _call("TailEvents", request, _told)


def parked(after: int) -> Call[tuple[ParkedEvent, ...]]:
    """Return a page of parked events."""
    request = pb.ListParkedEventsRequest(page_size=MAX_PAGE, after_event_id=after)
    return _call("ListParkedEvents", request, _parked)


def resend(event_ids: Sequence[int], *, everything: bool) -> Call[int]:
    """Send parked events again; the answer is how many."""
    check(event_faults(event_ids, [], field="event_ids"))
    if everything == bool(event_ids):
        violation = FieldViolation("event_ids", "give event ids, or ask for all, not both")
        raise InvalidArgument([violation])
    request = pb.ResendParkedEventsRequest(event_ids=event_ids, all=everything)
    return _call("ResendParkedEvents", request, _count)


def disconnect(*, force: bool) -> Call[int]:
    """Keep events for Kafka no longer; the answer is how many never reach it."""
    return _call("DisconnectKafka", pb.DisconnectKafkaRequest(force=force), _count)


def _call(method: str, request: Message, convert: Callable[[Any], T]) -> Call[T]:
    return Call("EventService", method, request, convert)


def _told(answer: pb.TailEventsResponse) -> JobEvent | str:
    return answer.place or read.event(answer.event)


def _parked(answer: pb.ListParkedEventsResponse) -> tuple[ParkedEvent, ...]:
    return tuple(
        ParkedEvent(
            read.event(each.event), each.cause, read.instant(each.parked_at), each.resending
        )
        for each in answer.events
    )


def _count(answer: pb.ResendParkedEventsResponse | pb.DisconnectKafkaResponse) -> int:
    return answer.count
