"""The stream for those who watch it: with or without Kafka, from a cursor in memory.

A snapshot in memory is void once transaction ids may be issued anew (a crash, a failover): then the
reader looks again at the last events by id, and knows those that it has had. Those of a job stay in
order.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from jobqueue.domain.job import JobEvent
from jobqueue.errors import DeadlineExceeded, FailedPrecondition, Unavailable
from jobqueue.events.places import Place
from jobqueue.store.events import (
    BEGINNING,
    LogPage,
    Step,
    TailStart,
    find_first_event,
    list_events_after,
    list_new_events,
    start_tail,
)
from jobqueue.store.faults import retrying
from jobqueue.store.pool import Pool

T = TypeVar("T")

RECENT_EVENTS = 1_000
_PAGE = 1_000
_DISORDER = 10_000
"""Events that were written at once are not stored in the order of their ids."""
_POLL_S = 0.25
_OUTAGE_S = 1.0
_AWAY = (Unavailable, DeadlineExceeded, FailedPrecondition)
"""What a patient reader waits through; the last one is a standby."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to show; empty fields match everything."""

    queue: str | None = None
    types: frozenset[str] = field(default_factory=frozenset)
    after: int | None = None
    """Begin after this event id. None: with the newest, or with what comes when following."""
    place: Place | None = None
    """Go on from here, whatever ``after`` says."""

    def picks(self, events: Iterable[JobEvent]) -> list[JobEvent]:
        """Return those of the types that are wanted."""
        return [event for event in events if not self.types or event.type in self.types]


class Tail:
    """Reads the stream for watchers; any number of them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read(self, wanted: Wanted, *, follow: bool) -> AsyncGenerator[JobEvent | Place, None]:
        """Yield what is recorded, then, when following, what comes, without an end.

        In between, and first of all, the place that was reached.
        A follower waits while PostgreSQL is away, and misses nothing. Events of jobs that were
        deleted long ago are left out. Raises FailedPrecondition on a standby of PostgreSQL, which
        cannot tell what is still to come; one who follows from a place waits there too.
        """
        reader = _Reader(self._pool, wanted, patient=follow)
        if wanted.place is not None:
            place = wanted.place.within(await reader.present())
        else:
            present = await retrying(lambda: _present(self._pool))
            place = Place(Step(BEGINNING, present), _first(wanted, present, follow=follow))
        yield place
        async for each in reader.rest(place):
            yield each
        end = place.step.end
        while follow:
            await asyncio.sleep(_POLL_S)
            begun, end = end, await reader.present()
            async for each in reader.news(begun, end):
                yield each


class _Reader:
    """One watcher: what it wants, and which of the newest events it has had."""

    def __init__(self, pool: Pool, wanted: Wanted, *, patient: bool) -> None:
        self._pool = pool
        self._wanted = wanted
        self._patient = patient
        self._had: dict[int, datetime] = {}

    async def present(self) -> TailStart:
        return await self._ask(lambda: _present(self._pool))

    async def rest(self, place: Place) -> AsyncGenerator[JobEvent | Place, None]:
        """Yield what is left of a step."""
        past = place.step.start == BEGINNING
        told = self._past(place.step, place.after) if past else self._told(place)
        async for each in told:
            yield each

    async def _past(self, step: Step, after: int) -> AsyncGenerator[JobEvent | Place, None]:
        """Yield what is recorded after an event id. What comes shortly before counts as had."""
        end = step.end
        upto = min(after, _recent(end)) if self._patient else after
        if upto < _recent(end):
            # Of old ids nothing may be left: they would be walked for minutes.
            first = await self._ask(lambda: find_first_event(self._pool))
            upto = end.last_eid if first is None else max(upto, first - _DISORDER)
        while upto < end.last_eid:
            page = await self._range(step, upto)
            for event in self._new(end, page.events):
                if event.event_id > after:
                    yield event
            upto = page.upto
            yield Place(step, max(upto, after))

    async def news(
        self, begun: TailStart, end: TailStart
    ) -> AsyncGenerator[JobEvent | Place, None]:
        """Yield a window in pages: one who reads slowly costs no memory."""
        again = None if begun.epoch == end.epoch else _recent(begun)
        if begun.snapshot == end.snapshot and again is None:
            return
        async for each in self._told(Place(Step(begun, end, again), 0)):
            yield each

    async def _told(self, place: Place) -> AsyncGenerator[JobEvent | Place, None]:
        async for page in self._pages(place.step, place.after):
            for event in self._new(place.step.end, page.events):
                yield event
            yield Place(place.step, page.upto)

    async def _pages(self, step: Step, after: int) -> AsyncGenerator[LogPage, None]:
        """Yield a window, a page at a time.

        To look for a page in all of a large window costs as much as that. So it is done for the
        first one, and again only where the ranges of ids after it have an empty one.
        """
        while after < step.end.last_eid:
            found = await self._anywhere(step, after)
            full = len(found) == _PAGE
            page = LogPage(found, found[-1].event_id if full else step.end.last_eid)
            yield page
            while page.events and page.upto < step.end.last_eid:
                page = await self._range(step, page.upto)
                yield page
            after = page.upto

    async def _range(self, step: Step, after: int) -> LogPage:
        """Return the next range of ids."""
        return await self._ask(
            lambda: list_events_after(
                self._pool, step, after=after, limit=_PAGE, queue=self._wanted.queue
            )
        )

    async def _anywhere(self, step: Step, after: int) -> list[JobEvent]:
        """Return the next page, however far off."""
        return await self._ask(
            lambda: list_new_events(
                self._pool, step, after=after, limit=_PAGE, queue=self._wanted.queue
            )
        )

    def _new(self, end: TailStart, events: Iterable[JobEvent]) -> list[JobEvent]:
        """Return those that are wanted and were not had; remember those that may come again.

        An event is known by id and time: after a failover that lost it, its id comes anew.
        """
        picked = self._wanted.picks(events)
        new = [event for event in picked if self._had.get(event.event_id) != event.at]
        recent = _recent(end)
        self._had |= {event.event_id: event.at for event in new}
        self._had = {event_id: at for event_id, at in self._had.items() if event_id > recent}
        return new

    async def _ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await ``work()``; a patient reader waits until PostgreSQL is back."""
        while self._patient:
            try:
                return await retrying(work)
            except _AWAY:
                await asyncio.sleep(_OUTAGE_S)
        return await retrying(work)


async def _present(pool: Pool) -> TailStart:
    place = await start_tail(pool)
    if place.standby:
        raise FailedPrecondition("events cannot be read on a standby", reason="STANDBY")
    return place


def _recent(place: TailStart) -> int:
    """Return the event id after which events are looked at again when a snapshot is void."""
    return max(place.last_eid - RECENT_EVENTS, 0)


def _first(wanted: Wanted, place: TailStart, *, follow: bool) -> int:
    if wanted.after is not None:
        return wanted.after
    return place.last_eid if follow else _recent(place)
