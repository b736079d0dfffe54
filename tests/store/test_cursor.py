"""How a consumer's cursor goes through the events, statement by statement (R-6.2)."""

from jobqueue.store.events import (
    add_cursor,
    list_resends,
    move_cursor,
    open_window,
    park_event,
    read_page,
    resend_parked,
    take_cursor,
)
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.store import add_queue, submit


async def test_what_a_transaction_wrote_that_was_open_for_hours_is_not_left_behind(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await add_cursor(db, "kafka")
    lease = await take_cursor(db, "kafka", "a server", 60.0)
    assert lease is not None
    late = await another()
    async with late.transaction():
        await submit(late)
        for _ in range(3):
            await submit(db)
            window = await open_window(db, lease)
            assert window is not None
            assert await move_cursor(db, lease, window.last)
            await db.execute(
                "UPDATE jobqueue.event_cursors SET updated_at = updated_at + interval '1 h'"
            )
    window = await open_window(db, lease)
    assert window is not None, "its event is older than all that was read"
    assert window.events == 1


async def test_an_event_that_was_resent_in_vain_is_not_sent_again_unasked(db: Connection) -> None:
    await add_queue(db)
    await add_cursor(db, "kafka")
    lease = await take_cursor(db, "kafka", "a server", 60.0)
    assert lease is not None
    await submit(db)
    window = await open_window(db, lease)
    assert window is not None
    page = await read_page(db, lease, window, most_events=10, most_bytes=1_000)
    (event,) = [event for group in page.groups for event in group.events()]
    await park_event(db, event, "too large")
    assert await resend_parked(db, None) == 1
    assert await list_resends(db, 10) == [event]
    await park_event(db, event, "still too large")
    assert await list_resends(db, 10) == []
