"""A consumer's way through the events, step by step."""

from dataclasses import replace

from jobqueue.store.events import (
    CursorLease,
    Window,
    add_cursor,
    move_cursor,
    open_window,
    read_page,
    take_cursor,
)
from jobqueue.store.pool import Connection
from tests.support.store import add_queue


async def taken(db: Connection) -> CursorLease:
    """Make a queue and the cursor, and take it."""
    await add_queue(db)
    await add_cursor(db, "kafka")
    return await retaken(db)


async def retaken(db: Connection) -> CursorLease:
    """Take the cursor, which nobody holds."""
    lease = await take_cursor(db, "kafka", "a server", 60.0)
    assert lease is not None
    return lease


async def event_ids(db: Connection) -> list[int]:
    """Return the ids of all events."""
    return [row["eid"] for row in await db.fetch("SELECT eid FROM jobqueue.job_events ORDER BY 1")]


async def opened(db: Connection, lease: CursorLease) -> Window:
    """Open a window; something must be new."""
    window = await open_window(db, lease)
    assert window is not None
    return window


async def passed(db: Connection, lease: CursorLease, window: Window, most: int) -> list[int]:
    """Read a window in pages of so many and move the cursor past it; return its events' ids."""
    ids: list[int] = []
    while True:
        page = await read_page(db, lease, window, most_events=most, most_bytes=1_000)
        ids += [event_id for group in page.groups for event_id in group.event_ids]
        assert await move_cursor(db, lease, page.upto)
        if page.upto >= window.last:
            return sorted(ids)
        window = replace(window, after=page.upto, events=None)
