"""Pages of the open window of a cursor, encoded, in waves; the next is read ahead (R-6.2)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jobqueue.domain.event import EventGroup
from jobqueue.events.encode import Record, records
from jobqueue.events.publisher import MAX_IN_FLIGHT
from jobqueue.store.events import CursorLease, Window, open_window, read_page
from jobqueue.store.pool import STATEMENT_TIMEOUT_S, SWEEP_TIMEOUT_S, Pool

PAGE_EVENTS = MAX_IN_FLIGHT
PAGE_BYTES = 4 * 1024 * 1024
"""Of details, not counting the last one; two pages are in memory at most."""
_LEAST_SHARE = 1 / 128
_GROWTH = 1.1
"""Slow: a page that is too large for Kafka costs the whole time of a delivery."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Messages that may be under way together, and the events that they are about."""

    event_ids: list[int]
    records: list[Record]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page ready to be sent: with all ``waves`` the cursor has passed ``upto``."""

    groups: Sequence[EventGroup]
    waves: Sequence[Wave]
    upto: int

    @property
    def count(self) -> int:
        """How many events it has."""
        return sum(len(wave.records) for wave in self.waves)


class Pages:
    """Reads the windows of a cursor. ``drop`` what was read ahead once its lease may be lost."""

    def __init__(self, pool: Pool, event_bytes: int) -> None:
        """``event_bytes`` is the limit of one event."""
        self._pool = pool
        self._event_bytes = event_bytes
        self._ahead: tuple[Window, asyncio.Task[Sheet]] | None = None
        self._within_s = STATEMENT_TIMEOUT_S
        self._share = 1.0

    def shrink(self) -> None:
        """Read pages of half the size from now on: Kafka did not take one in time."""
        self._share = max(self._share / 2, _LEAST_SHARE)

    def grow(self) -> None:
        """Read somewhat larger ones again: it took one."""
        self._share = min(self._share * _GROWTH, 1.0)

    def sized(self, most: int) -> int:
        """Return how much of ``most`` a page may have now."""
        return max(int(most * self._share), 1)

    @property
    def ahead(self) -> bool:
        """Tell whether the open window has another page."""
        return self._ahead is not None

    async def next(self, lease: CursorLease) -> Sheet | None:
        """Return the next page, and begin to read the one after it; None: nothing is new.

        The cursor must have passed the page before, if there is one. Raises TimeoutError; the next
        try may take twice as long: what is behind by millions of events needs minutes, but a
        connection that is dead without a word must not cost as much.
        """
        try:
            sheet = await self._next(lease)
        except TimeoutError:
            self._within_s = min(2 * self._within_s, SWEEP_TIMEOUT_S)
            raise
        self._within_s = STATEMENT_TIMEOUT_S
        return sheet

    async def _next(self, lease: CursorLease) -> Sheet | None:
        if self._ahead is None:
            window = await open_window(self._pool, lease, self._within_s)
            if window is None:
                return None
            self._read_ahead(lease, window)
        assert self._ahead is not None
        window, reading = self._ahead
        sheet = await reading
        self._ahead = None
        if sheet.upto < window.last:
            self._read_ahead(lease, replace(window, after=sheet.upto, events=None))
        return sheet

    async def drop(self) -> None:
        """Forget what was read ahead."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead[1].cancel()
            await asyncio.gather(ahead[1], return_exceptions=True)

    def _read_ahead(self, lease: CursorLease, window: Window) -> None:
        self._ahead = window, asyncio.create_task(self._read(lease, window))

    async def _read(self, lease: CursorLease, window: Window) -> Sheet:
        page = await read_page(
            self._pool,
            lease,
            window,
            most_events=self.sized(PAGE_EVENTS),
            most_bytes=self.sized(PAGE_BYTES),
            within_s=self._within_s,
        )
        # In a thread: thousands would hold up the loop.
        waves = await asyncio.to_thread(encoded, page.groups, self._event_bytes)
        return Sheet(page.groups, waves, page.upto)


def encoded(groups: Sequence[EventGroup], event_bytes: int) -> list[Wave]:
    """Split events so that each job has one in a wave, its earlier ones in earlier waves."""
    turns: dict[bytes, int] = {}
    waves: list[Wave] = []
    for group in groups:
        for event_id, record in zip(group.event_ids, records(group, event_bytes), strict=True):
            job = record[0]
            turn = turns.get(job, 0)
            turns[job] = turn + 1
            if turn == len(waves):
                waves.append(Wave([], []))
            wave = waves[turn]
            wave.event_ids.append(event_id)
            wave.records.append(record)
    return waves
