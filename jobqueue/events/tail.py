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
from jobqueue.store.events import (
    Step,
    TailStart,
    list_events_after,
    list_new_events,
    start_tail,
)
from jobqueue.store.faults import retrying
from jobqueue.store.pool import Pool

T = TypeVar("T")

RECENT_EVENTS = 1_000
_PAGE = 1_000
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

    def picks(self, events: Iterable[JobEvent]) -> list[JobEvent]:
        """Return those of the types that are wanted."""
        return [event for event in events if not self.types or event.type in self.types]


class Tail:
    """Reads the stream for watchers; any number of them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read(self, wanted: Wanted, *, follow: bool) -> AsyncGenerator[JobEvent, None]:
        """Yield what is recorded, then, when following, what comes, without an end.

        A follower waits while PostgreSQL is away, and misses nothing. Events of jobs that were
        deleted long ago are left out. Raises FailedPrecondition on a standby of PostgreSQL, which
        cannot tell what is still to come.
        """
        place = await retrying(lambda: _present(self._pool))
        reader = _Reader(self._pool, wanted, patient=follow)
        after = _first(wanted, place, follow=follow)
        async for event in reader.past(after, place):
            yield event
        while follow:
            await asyncio.sleep(_POLL_S)
            begun, place = place, await reader.present()
            async for event in reader.news(begun, place):
                yield event


class _Reader:
    """One watcher: what it wants, and which of the newest events it has had."""

    def __init__(self, pool: Pool, wanted: Wanted, *, patient: bool) -> None:
        self._pool = pool
        self._wanted = wanted
        self._patient = patient
        self._had: dict[int, datetime] = {}

    async def present(self) -> TailStart:
        return await self._ask(lambda: _present(self._pool))

    async def past(self, after: int, end: TailStart) -> AsyncGenerator[JobEvent, None]:
        """Yield what is recorded after an event id. What comes shortly before counts as had."""
        upto = min(after, _recent(end)) if self._patient else after
        while upto < end.last_eid:
            page = await self._ask(
                lambda upto=upto: list_events_after(  # type: ignore[misc]
                    self._pool, after=upto, end=end, limit=_PAGE, queue=self._wanted.queue
                )
            )
            for event in self._new(end, page.events):
                if event.event_id > after:
                    yield event
            upto = page.upto

    async def news(self, begun: TailStart, end: TailStart) -> AsyncGenerator[JobEvent, None]:
        """Yield a window in pages: one who reads slowly costs no memory."""
        again = None if begun.epoch == end.epoch else _recent(begun)
        after, full = 0, begun.snapshot != end.snapshot or again is not None
        while full:
            found = await self._ask(
                lambda after=after: list_new_events(  # type: ignore[misc]
                    self._pool,
                    Step(begun, end, again),
                    after=after,
                    limit=_PAGE,
                    queue=self._wanted.queue,
                )
            )
            for event in self._new(end, found):
                yield event
            full = len(found) == _PAGE
            after = found[-1].event_id if found else after

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
