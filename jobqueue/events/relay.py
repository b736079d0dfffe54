"""The relay: moves events from PostgreSQL to Kafka, under a leased cursor (R-6.2, R-6.3).

The order of each job is kept without trust in the producer: of one job only one event is under way
at a time. When Kafka does not take an event, nothing after it of its page is sent, and the page is
read again; what arrived already then arrives twice, under the same sequence. While one page is on
its way the next is read; the cursor passes a page when all of it has arrived.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from jobqueue.domain.event import EventGroup, StreamEvent
from jobqueue.errors import Unavailable
from jobqueue.events.pages import Pages, Sheet, Wave, encoded
from jobqueue.events.publisher import DELIVERY_S, Failure, Publisher
from jobqueue.events.signals import (
    EVENT_FIGURES,
    EVENTS_PARKED,
    EVENTS_PUBLISHED,
    KAFKA_PUBLISH_FAILED,
    RELAY_CHANGED,
    Parked,
    Published,
    PublishFailed,
    RelayChanged,
    RelayState,
)
from jobqueue.runtime.ending import end
from jobqueue.runtime.service import Service
from jobqueue.store.events import (
    CursorLease,
    add_cursor,
    count_backlog,
    extend_cursor,
    list_resends,
    move_cursor,
    park_events,
    remove_parked,
    take_cursor,
)
from jobqueue.store.faults import DRIVER_ERRORS, retrying, translate
from jobqueue.store.pool import Pool, transaction

T = TypeVar("T")

CURSOR = "kafka"
LEASE_S = 10.0
_IDLE_S = 0.1
_FEW_EVENTS = 500
"""After so few events it waits, so that more come together: each page costs a few statements."""
_FIGURES_S = 5.0
_RESEND_PAGE = 100
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.2, 2.0


class Relay(Service):
    """Publishes while it holds the cursor; stands by while another server does."""

    def __init__(
        self,
        pool: Pool,
        publisher: Publisher,
        *,
        holder: str,
        event_bytes: int,
        lease_s: float = LEASE_S,
    ) -> None:
        """``holder`` names this server to people; ``event_bytes`` is the limit of one event."""
        # A page is sent in waves; each may use up the delivery time, and the first failure ends it.
        super().__init__("event-relay", interval_s=_IDLE_S, bound_s=3 * DELIVERY_S)
        self.state = RelayState.STARTING
        self.cause = ""
        self._pool = pool
        self._publisher = publisher
        self._pages = Pages(pool, event_bytes)
        self._holder = holder
        self._event_bytes = event_bytes
        self._lease_s = lease_s
        self._lease: CursorLease | None = None
        self._extended_at = 0.0
        self._counted_at = float("-inf")
        self._resends_at = float("-inf")
        self._kafka_failures = 0

    async def setup(self) -> None:
        """Make the cursor before the door opens: what is accepted from now on is published."""
        await retrying(lambda: add_cursor(self._pool, CURSOR))

    async def turn(self) -> float | None:
        """Publish one page."""
        try:
            return await self._work()
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    async def teardown(self) -> None:
        """Give the cursor back, so that another server goes on at once."""
        self._publisher.abandon()
        await self._pages.drop()
        lease, self._lease = self._lease, None
        if lease is not None:
            with contextlib.suppress(*DRIVER_ERRORS):  # it ends by itself
                await extend_cursor(self._pool, lease, 0.0)
        self._enter(RelayState.STARTING)

    async def _work(self) -> float | None:
        await self._count()
        lease = await self._hold()
        if lease is None:
            self._enter(RelayState.STANDBY)
            return self._lease_s / 4
        try:
            more = await self._publish_next(lease)
        except _KafkaFailed as failed:
            return self._retry_later(failed)
        except _LeaseLost:
            self._lease = None
            return 0.0
        self._kafka_failures = 0
        self._enter(RelayState.HOLDING)
        return 0.0 if more else None

    async def _hold(self) -> CursorLease | None:
        """Return the lease, extended when it is time."""
        now = self._clock.monotonic()
        if self._lease is not None and now - self._extended_at < self._lease_s / 3:
            return self._lease
        if self._lease is None or not await extend_cursor(self._pool, self._lease, self._lease_s):
            self._publisher.abandon()
            await self._pages.drop()  # others may have passed it, or come to new windows
            # An operator who thought that Kafka is off for good may have removed it meanwhile.
            await add_cursor(self._pool, CURSOR)
            self._lease = await take_cursor(self._pool, CURSOR, self._holder, self._lease_s)
        self._extended_at = now
        return self._lease

    async def _publish_next(self, lease: CursorLease) -> bool:
        """Publish what was asked for again, and one page; True when more waits.

        Both in each turn, so that neither waits for all of the other. What was read ahead is void
        after a failure.
        """
        try:
            resent = await self._resend(lease)
            return await self._advance(lease) or resent
        except BaseException:
            await self._pages.drop()
            raise

    async def _advance(self, lease: CursorLease) -> bool:
        """Publish the next page and pass it; False when little or nothing is new."""
        # Minutes after a long outage; its statements end by themselves.
        sheet = await self._holding(lease, self._pages.next(lease), self._clock.monotonic)
        if sheet is None:
            return False
        causes = await self._publish(lease, sheet.waves)
        await self._pass(lease, sheet, _picked(sheet.groups, causes))
        self._pages.grow()
        return self._pages.ahead or sheet.count >= _FEW_EVENTS

    async def _pass(self, lease: CursorLease, sheet: Sheet, refused: "_Refused") -> None:
        async with self._pool.acquire() as connection, transaction(connection):
            await park_events(connection, refused)
            if not await move_cursor(connection, lease, sheet.upto):
                raise _LeaseLost
        self._tell_parked(refused)

    async def _resend(self, lease: CursorLease) -> bool:
        """Send parked events that operators asked for; True when there may be more."""
        now = self._clock.monotonic()
        if now - self._resends_at < 1.0:
            return False
        events = await list_resends(self._pool, self._pages.sized(_RESEND_PAGE))
        if not events:
            self._resends_at = now
            return False
        groups = [event.alone() for event in events]
        causes = await self._publish(lease, encoded(groups, self._event_bytes))
        refused = _picked(groups, causes)
        sent = [event.event_id for event in events if event.event_id not in causes]
        async with self._pool.acquire() as connection, transaction(connection):
            await park_events(connection, refused)
            await remove_parked(connection, sent)
        self._pages.grow()
        self._tell_parked(refused)
        return True

    async def _publish(self, lease: CursorLease, waves: Sequence[Wave]) -> dict[int, str]:
        """Send all in order; return why which were refused for good, by event id.

        Raises _KafkaFailed and _LeaseLost.
        """
        refused: dict[int, str] = {}
        for wave in waves:
            failures = await self._publish_wave(lease, wave)
            lost = [f for f in failures.values() if not f.refused]
            self._tell(len(wave.records) - len(failures), list(failures.values()))
            if lost:
                raise _KafkaFailed(self._publisher.last_error or lost[0].cause)
            refused |= {wave.event_ids[place]: failure.cause for place, failure in failures.items()}
        return refused

    async def _publish_wave(self, lease: CursorLease, wave: Wave) -> dict[int, Failure]:
        """Send one wave."""
        sending = self._publisher.publish(wave.records)
        try:
            # Kafka may refuse it in many parts: each is a flight.
            return await self._holding(lease, sending, lambda: self._publisher.flights)
        except Unavailable as error:
            raise _KafkaFailed(error.message) from error
        except BaseException:
            self._publisher.abandon()
            raise

    async def _holding(
        self, lease: CursorLease, work: Coroutine[Any, Any, T], passed: Callable[[], float]
    ) -> T:
        """Await ``work`` and hold the cursor meanwhile; if ``passed`` grows it is slow, not stuck.

        Raises _LeaseLost. However this ends, the work has ended too.
        """
        working, before = asyncio.create_task(work), passed()
        try:
            while not working.done():
                await asyncio.wait({working}, timeout=self._lease_s / 3)
                if passed() > before:
                    before, self.last_progress = passed(), self._clock.monotonic()
                await self._keep(lease)
                with contextlib.suppress(*DRIVER_ERRORS):  # it ends nothing that takes minutes
                    await self._count()
            return working.result()
        finally:
            await end(working)

    async def _keep(self, lease: CursorLease) -> None:
        """Extend the lease when it is time. Raises _LeaseLost."""
        now = self._clock.monotonic()
        if now - self._extended_at >= self._lease_s / 3:
            if not await extend_cursor(self._pool, lease, self._lease_s):
                raise _LeaseLost
            self._extended_at = now

    async def _count(self) -> None:
        now = self._clock.monotonic()
        if now - self._counted_at >= _FIGURES_S:
            self._counted_at = now
            EVENT_FIGURES.emit(await count_backlog(self._pool, CURSOR))

    def _retry_later(self, failed: "_KafkaFailed") -> float:
        self._kafka_failures += 1
        self._pages.shrink()
        self._enter(RelayState.FAILING, failed.cause)
        return float(min(_FIRST_PAUSE_S * 2 ** min(self._kafka_failures, 8), _LAST_PAUSE_S))

    def _tell(self, published: int, failures: Sequence[Failure]) -> None:
        topic = self._publisher.topic
        if published:
            EVENTS_PUBLISHED.emit(Published(topic, published))
        for cause, count in Counter(failure.cause for failure in failures).items():
            KAFKA_PUBLISH_FAILED.emit(PublishFailed(topic, count, cause))

    def _tell_parked(self, refused: "_Refused") -> None:
        for event, cause in refused:
            EVENTS_PARKED.emit(Parked(event.event_id, cause))

    def _enter(self, state: RelayState, cause: str = "") -> None:
        changed = state is not self.state
        self.state, self.cause = state, cause
        if changed:
            RELAY_CHANGED.emit(RelayChanged(state, cause))


_Refused = list[tuple[StreamEvent, str]]


def _picked(groups: Sequence[EventGroup], causes: Mapping[int, str]) -> _Refused:
    """Return the events that were refused, with the cause of each, by id."""
    if not causes:
        return []
    events = sorted(event for group in groups for event in group.events() if event[0] in causes)
    return [(event, causes[event.event_id]) for event in events]


class _KafkaFailed(Exception):
    """Kafka does not take events now."""

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(cause)


class _LeaseLost(Exception):
    """Another relay holds the cursor."""
