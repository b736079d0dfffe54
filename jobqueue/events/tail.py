"""The stream for those who watch it: with or without Kafka, from a cursor in memory.

A snapshot in memory is void once transaction ids may be issued anew (a crash, a failover): then the
reader goes on by event id, with an overlap. Events may repeat; those of a job stay in order.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field

from jobqueue.domain.job import JobEvent
from jobqueue.errors import FailedPrecondition
from jobqueue.store.events import (
    TailStart,
    list_events_after,
    list_new_events,
    start_tail,
)
from jobqueue.store.faults import retrying
from jobqueue.store.pool import Pool

RECENT_EVENTS = 1_000
_PAGE = 1_000
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to show; empty fields match everything."""

    queue: str | None = None
    types: frozenset[str] = field(default_factory=frozenset)
    after: int | None = None
    """Begin after this event id. None: with the newest, or with what comes when following."""

    def picks(self, events: Iterable[JobEvent]) -> list[JobEvent]:
        """Return those of the types that are wanted."""
        return [event for event in events if not self.types or event.type in self.types]


class Tail:
    """Reads the stream for watchers; any number of them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read(self, wanted: Wanted, *, follow: bool) -> AsyncGenerator[JobEvent, None]:
        """Yield what is recorded, then, when following, what comes, without an end.

        Events of jobs that were deleted long ago are left out. Raises FailedPrecondition on a
        standby of PostgreSQL, which cannot tell what is still to come.
        """
        place = await self._now()
        after = _first(wanted, place, follow=follow)
        async for event in self._past(wanted, after, place):
            yield event
        while follow:
            await asyncio.sleep(_POLL_S)
            begun, place = place, await self._now()
            async for event in self._between(wanted, begun, place):
                yield event

    async def _now(self) -> TailStart:
        place = await retrying(lambda: start_tail(self._pool))
        if place.standby:
            raise FailedPrecondition("events cannot be read on a standby", reason="STANDBY")
        return place

    async def _between(
        self, wanted: Wanted, begun: TailStart, end: TailStart
    ) -> AsyncGenerator[JobEvent, None]:
        if begun.epoch != end.epoch:
            overlapping = max(begun.last_eid - RECENT_EVENTS, 0)
            async for event in self._past(wanted, overlapping, end):
                yield event
        elif begun.snapshot != end.snapshot:
            async for event in self._news(wanted, begun, end):
                yield event

    async def _past(
        self, wanted: Wanted, after: int, end: TailStart
    ) -> AsyncGenerator[JobEvent, None]:
        while after < end.last_eid:
            page = await retrying(
                lambda after=after: list_events_after(  # type: ignore[misc]
                    self._pool, after=after, end=end, limit=_PAGE, queue=wanted.queue
                )
            )
            for event in wanted.picks(each.event for each in page.events):
                yield event
            after = page.upto

    async def _news(
        self, wanted: Wanted, begun: TailStart, end: TailStart
    ) -> AsyncGenerator[JobEvent, None]:
        """Yield a window in pages: one who reads slowly costs no memory."""
        after, full = 0, True
        while full:
            found = await retrying(
                lambda after=after: list_new_events(  # type: ignore[misc]
                    self._pool, begun, end, after=after, limit=_PAGE, queue=wanted.queue
                )
            )
            for event in wanted.picks(each.event for each in found):
                yield event
            full = len(found) == _PAGE
            after = found[-1].event.event_id if found else after


def _first(wanted: Wanted, place: TailStart, *, follow: bool) -> int:
    if wanted.after is not None:
        return wanted.after
    return place.last_eid if follow else max(place.last_eid - RECENT_EVENTS, 0)
