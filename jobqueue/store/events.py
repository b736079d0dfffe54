"""The stream of events: cursors that are leased, their windows, and parked events (R-6.2, R-6.3).

A cursor is a snapshot, stored by a committed transaction. Its next window is what is visible now
and was not then, in the order of event ids, which is the order of each job's sequence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from jobqueue.domain.event import EventGroup, ParkedEvent, StreamEvent
from jobqueue.domain.job import JobEvent
from jobqueue.store.pool import SWEEP_TIMEOUT_S, Connection, Db
from jobqueue.store.rows import event_group, job_event, stream_event
from jobqueue.store.statements import statement

_ADD = statement("add_event_cursor")
_TAKE = statement("take_event_cursor")
_EXTEND = statement("extend_event_cursor")
_RESEED = statement("reseed_event_cursor")
_OPEN = statement("open_event_window")
_READ_WINDOW = statement("read_event_window")
_READ_PAGE = statement("read_event_page")
_MOVE = statement("move_event_cursor")
_BACKLOG = statement("count_event_backlog")
_LOCK = statement("lock_event_cursor")
_REMOVE = statement("remove_event_cursor")
_PARK = statement("park_events")
_LIST_PARKED = statement("list_parked_events")
_RESEND = statement("resend_parked_events")
_LIST_RESENDS = statement("list_resends")
_REMOVE_PARKED = statement("remove_parked_events")
_START_TAIL = statement("start_event_tail")
_FIND_FIRST = statement("find_first_event")
_LIST_AFTER = statement("list_events_after")
_LIST_NEW = statement("list_new_events")

_OVERLAP_EVENTS = 10_000
_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class CursorLease:
    """The right to move a cursor, until another token is given out."""

    name: str
    token: int


@dataclass(frozen=True, slots=True)
class CursorHolder:
    """Who holds a cursor now; None: nobody."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Window:
    """What is open of a cursor's window: events after one id up to another.

    ``events`` is how many there are, None when part of it was read before.
    """

    after: int
    last: int
    events: int | None


@dataclass(frozen=True, slots=True)
class Page:
    """Events in groups, those of a job in order; with them a cursor has passed ``upto``."""

    groups: Sequence[EventGroup]
    upto: int


@dataclass(frozen=True, slots=True)
class LogPage:
    """Events in order, for people; with them a reader has passed ``upto``."""

    events: Sequence[JobEvent]
    upto: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """How far a consumer is behind: events, seconds, and events that are parked."""

    events: int
    oldest_age_s: float
    parked: int


@dataclass(frozen=True, slots=True)
class TailStart:
    """A place in the stream for a reader that stores no cursor; void in another ``epoch``."""

    snapshot: str
    since: datetime
    last_eid: int
    epoch: str
    standby: bool


async def add_cursor(db: Db, name: str) -> None:
    """Make a consumer known, unless it is: it gets what happens from now on."""
    await db.execute(_ADD, name)


async def take_cursor(db: Db, name: str, holder: str, ttl_s: float) -> CursorLease | None:
    """Take a cursor whose lease is over; None when another holds it, or on a standby.

    A cursor from another cluster is set back by event id, so that events repeat but none is missed.
    """
    row = await db.fetchrow(_TAKE, name, holder, ttl_s)
    if row is None:
        return None
    if not row["valid"]:
        await db.execute(_RESEED, name, row["token"], _OVERLAP_EVENTS)
    return CursorLease(name, row["token"])


async def extend_cursor(db: Db, lease: CursorLease, ttl_s: float) -> bool:
    """Hold it for ``ttl_s`` seconds from now (0: give it back); False when it is lost."""
    return await db.fetchval(_EXTEND, lease.name, lease.token, ttl_s) is not None


async def open_window(
    db: Db, lease: CursorLease, within_s: float = SWEEP_TIMEOUT_S
) -> Window | None:
    """Return the window that is open, or opens when something is new; None: nothing is.

    All that is new is read for that: after a long outage of a consumer it takes minutes.
    """
    row = await db.fetchrow(_OPEN, lease.name, lease.token, timeout=within_s)
    return None if row is None else Window(row["after"], row["last"], row["events"])


async def read_page(
    db: Db,
    lease: CursorLease,
    window: Window,
    *,
    most_events: int,
    most_bytes: int,
    within_s: float = SWEEP_TIMEOUT_S,
) -> Page:
    """Return the next events of the open window, about ``most_events`` at most.

    They end with the one that makes their details exceed ``most_bytes``. Whoever lost the lease
    gets none: the window may be another's by now.
    """
    if window.events is not None and window.events <= most_events:
        query, upto = _READ_WINDOW, window.last
        span: tuple[int, ...] = (window.after,)
    else:
        query, upto = _READ_PAGE, min(window.after + most_events, window.last)
        span = (window.after, upto)
    asked = (lease.name, lease.token, *span, most_bytes)
    rows = await db.fetch(query, *asked, timeout=within_s)
    groups = [event_group(row) for row in rows]
    if sum(len(text.encode()) for g in groups for text in filter(None, g.details)) > most_bytes:
        upto = max(max(group.event_ids) for group in groups)
    return Page(groups, upto)


async def move_cursor(db: Db, lease: CursorLease, upto: int) -> bool:
    """Pass the events up to one; False when the lease is lost, and nothing was moved."""
    return await db.fetchval(_MOVE, lease.name, lease.token, upto) is not None


async def count_backlog(db: Db, name: str) -> Backlog:
    """Return how far a consumer is behind; cheap however far. All zero when there is no such."""
    row = await db.fetchrow(_BACKLOG, name, _COUNTED)
    if row is None:
        return Backlog(0, 0.0, 0)
    return Backlog(row["events"], row["oldest_age_s"], row["parked"])


async def lock_cursor(db: Connection, name: str) -> CursorHolder | None:
    """Lock a cursor for the caller's transaction; None: there is no such cursor."""
    row = await db.fetchrow(_LOCK, name)
    return None if row is None else CursorHolder(row["holder"])


async def remove_cursor(db: Connection, name: str) -> None:
    """Forget a consumer, and the events that are parked for it."""
    await db.execute(_REMOVE, name)


async def park_events(db: Db, refused: Sequence[tuple[StreamEvent, str]]) -> None:
    """Set events aside that were refused for good, each with its cause; thousands at once."""
    if refused:
        rows = [(*event[:-1], *event.kind, cause) for event, cause in refused]
        await db.execute(_PARK, *zip(*rows, strict=True))


async def list_parked(db: Db, *, after: int, limit: int) -> list[ParkedEvent]:
    """Return parked events by id, a page."""
    rows = await db.fetch(_LIST_PARKED, after, limit)
    return [
        ParkedEvent(job_event(row), row["cause"], row["parked_at"], row["resending"])
        for row in rows
    ]


async def resend_parked(db: Db, event_ids: Sequence[int] | None) -> int:
    """Ask for these to be sent again, or for all; return how many there are."""
    count: int = await db.fetchval(_RESEND, event_ids)
    return count


async def list_resends(db: Db, limit: int) -> list[StreamEvent]:
    """Return parked events that are to be sent again."""
    return [stream_event(row) for row in await db.fetch(_LIST_RESENDS, limit)]


async def remove_parked(db: Db, event_ids: Sequence[int]) -> None:
    """Forget parked events that arrived."""
    await db.execute(_REMOVE_PARKED, event_ids)


async def start_tail(db: Db) -> TailStart:
    """Return the present as a place in the stream."""
    row = await db.fetchrow(_START_TAIL)
    assert row is not None, "the statement returns one row"
    return TailStart(row["snapshot"], row["since"], row["last_eid"], row["epoch"], row["standby"])


async def find_first_event(db: Db) -> int | None:
    """Return the first event id, or one that few are below; None: there are no events."""
    first: int | None = await db.fetchval(_FIND_FIRST)
    return first


BEGINNING = TailStart("1:1:", datetime(1, 1, 1, tzinfo=UTC), 0, "", standby=False)
"""The place before all events."""


@dataclass(frozen=True, slots=True)
class Step:
    """From one place in the stream to the next; with all that comes after event ``again``.

    ``again`` is for places in two epochs: the first one's snapshot may then hide what is new.
    """

    start: TailStart
    end: TailStart
    again: int | None = None


async def list_events_after(
    db: Db, step: Step, *, after: int, limit: int, queue: str | None
) -> LogPage:
    """Return what became visible in a step, of a range of ``limit`` ids; costs no more than it."""
    start, end = step.start, step.end
    upto = min(after + limit, end.last_eid)
    rows = await db.fetch(
        _LIST_AFTER, after, upto, queue, start.snapshot, start.since, end.snapshot, step.again
    )
    return LogPage([job_event(row) for row in rows], upto)


async def list_new_events(
    db: Db, step: Step, *, after: int, limit: int, queue: str | None
) -> list[JobEvent]:
    """Return what became visible in a step, by id, a page after an id.

    Costs as much as the whole step, whatever the page.
    """
    start, end = step.start, step.end
    rows = await db.fetch(
        _LIST_NEW, start.snapshot, start.since, end.snapshot, queue, after, limit, step.again
    )
    return [job_event(row) for row in rows]
