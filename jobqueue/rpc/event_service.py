"""EventService: the stream of everything that happens to jobs (R-6, R-8)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from jobqueue.domain.event import ParkedEvent
from jobqueue.domain.limits import Limits, check, event_faults, name_faults
from jobqueue.errors import FieldViolation, InvalidArgument
from jobqueue.events.encode import event_message
from jobqueue.events.parking import Parking
from jobqueue.events.places import Place, read_place, write_place
from jobqueue.events.tail import Tail, Wanted
from jobqueue.rpc.convert import read_page_size
from jobqueue.rpc.times import timestamp
from jobqueue.v1 import event_service_pb2 as pb
from jobqueue.v1.event_service_pb2_grpc import EventServiceServicer

# Unused by our methods: the guard is the only one that answers through it.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class EventService(EventServiceServicer):
    """Reads a request, asks the events room, writes the answer. Errors pass to the guard."""

    def __init__(self, tail: Tail, parking: Parking, limits: Limits) -> None:
        self._tail = tail
        self._parking = parking
        self._limits = limits

    async def TailEvents(
        self, request: pb.TailEventsRequest, context: Context
    ) -> AsyncGenerator[pb.TailEventsResponse, None]:
        """Send what is recorded, then what comes."""
        wanted = self._wanted(request)
        async with aclosing(self._tail.read(wanted, follow=request.follow)) as told:
            async for each in told:
                if not isinstance(each, Place):
                    yield pb.TailEventsResponse(event=event_message(each))
                elif request.places:
                    yield pb.TailEventsResponse(place=write_place(each))

    async def ListParkedEvents(
        self, request: pb.ListParkedEventsRequest, context: Context
    ) -> pb.ListParkedEventsResponse:
        """Return a page of parked events."""
        check(event_faults([request.after_event_id], [], field="after_event_id"))
        size = read_page_size(request.page_size)
        found = await self._parking.page(request.after_event_id, size)
        return pb.ListParkedEventsResponse(events=map(_parked_message, found))

    async def ResendParkedEvents(
        self, request: pb.ResendParkedEventsRequest, context: Context
    ) -> pb.ResendParkedEventsResponse:
        """Send parked events again."""
        if request.all == bool(request.event_ids):
            violation = FieldViolation("event_ids", "give event ids, or set all, not both")
            raise InvalidArgument([violation])
        ids = None if request.all else list(request.event_ids)
        return pb.ResendParkedEventsResponse(count=await self._parking.resend(ids))

    async def DisconnectKafka(
        self, request: pb.DisconnectKafkaRequest, context: Context
    ) -> pb.DisconnectKafkaResponse:
        """Keep events for Kafka no longer."""
        count = await self._parking.disconnect(force=request.force)
        return pb.DisconnectKafkaResponse(count=count)

    def _wanted(self, request: pb.TailEventsRequest) -> Wanted:
        after = request.after_event_id if request.HasField("after_event_id") else None
        if request.queue:
            check(name_faults("queue", request.queue, self._limits))
        check(event_faults([after or 0], request.types, field="after_event_id"))
        place = read_place(request.place) if request.place else None
        return Wanted(request.queue or None, frozenset(request.types), after, place)


def _parked_message(parked: ParkedEvent) -> pb.ParkedEvent:
    return pb.ParkedEvent(
        event=event_message(parked.event),
        cause=parked.cause,
        parked_at=timestamp(parked.parked_at),
        resending=parked.resending,
    )
