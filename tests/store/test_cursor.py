"""How a consumer's cursor goes through the events, statement by statement (R-6.2)."""

import asyncio
from dataclasses import replace

import pytest

from jobqueue.domain.outcome import Failed
from jobqueue.store.doctor import list_cursor_lags
from jobqueue.store.events import (
    Backlog,
    count_backlog,
    extend_cursor,
    list_resends,
    move_cursor,
    open_window,
    park_events,
    read_page,
    resend_parked,
    take_cursor,
)
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.cursor import event_ids, opened, passed, retaken, taken
from tests.support.store import (
    claim,
    claim_one,
    restore_dump,
    set_clock_back,
    settle,
    submit,
    waits_for_lock,
)
from tests.support.waiting import eventually


@pytest.mark.parametrize("most", [2, 100], ids=["in-pages", "at-once"])
async def test_a_window_is_what_was_committed_when_it_opened_and_was_not_passed_before(
    db: Connection, another: Connect, most: int
) -> None:
    lease = await taken(db)
    early, late, young = await another(), await another(), await another()
    early_ends, late_ends, young_ends = (c.transaction() for c in (early, late, young))
    await early_ends.start()
    await late_ends.start()
    await submit(early, 2)
    await submit(late)
    await submit(db)
    windows = [await passed(db, lease, await opened(db, lease), most)]
    await young_ends.start()
    await submit(young)
    await early_ends.commit()
    await submit(db)
    window = await opened(db, lease)
    await late_ends.commit()
    await young_ends.commit()
    windows.append(await passed(db, lease, window, most))
    windows.append(await passed(db, lease, await opened(db, lease), most))
    ids = await event_ids(db)
    assert windows == [[ids[3]], [ids[0], ids[1], ids[5]], [ids[2], ids[4]]]


async def test_what_a_transaction_wrote_that_was_open_for_days_is_not_left_behind(
    db: Connection, another: Connect
) -> None:
    lease = await taken(db)
    late = await another()
    async with late.transaction():
        await submit(late)
        for _ in range(3):
            await submit(db)
            window = await opened(db, lease)
            assert await move_cursor(db, lease, window.last)
            await db.execute(
                "UPDATE jobqueue.event_cursors SET updated_at = updated_at + interval '2 days'"
            )
    left = await open_window(db, lease)
    assert left is not None, "its event is older than all that was read"
    assert left.events == 1


@pytest.mark.parametrize("by", ["10 min", "3 days"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-a-transaction"])
async def test_no_event_is_passed_by_when_the_clock_of_the_database_goes_back(
    db: Connection, another: Connect, by: str, *, beside: bool
) -> None:
    lease = await taken(db)
    await submit(db)
    await passed(db, lease, await opened(db, lease), 9)
    await set_clock_back(db, by)
    other = await another()
    async with other.transaction():
        if beside:
            await submit(other)
        await submit(db)
        await passed(db, lease, await opened(db, lease), 9)
        await set_clock_back(db, by)
    await submit(db)
    (*_, newest) = await passed(db, lease, await opened(db, lease), 9)
    assert newest == await db.fetchval("SELECT max(eid) FROM jobqueue.job_events")


async def test_the_backlog_is_what_is_left_of_the_open_window_and_what_came_after_it(
    db: Connection, another: Connect
) -> None:
    lease = await taken(db)
    late = await another()
    async with late.transaction():
        await submit(late)
        await submit(db, 4)
        window = await opened(db, lease)
        assert (await count_backlog(db, "kafka")).events == 4
        assert await move_cursor(db, lease, window.after + 1)
        await submit(db, 2)
        assert (await count_backlog(db, "kafka")).events == 3 + 2
    left = await count_backlog(db, "kafka")
    assert left.events == 3 + 2 + 1
    assert left.oldest_age_s > 0
    assert await move_cursor(db, lease, window.last)
    assert (await count_backlog(db, "kafka")).events == 2 + 1
    await passed(db, lease, await opened(db, lease), 9)
    assert await count_backlog(db, "kafka") == Backlog(0, 0.0, 0)


async def test_a_restored_dump_is_passed_once_though_its_transactions_are_yet_to_come(
    bare: Connection,
) -> None:
    await taken(bare)
    await submit(bare, 5)
    await restore_dump(bare)
    lease = await retaken(bare)
    restored = await event_ids(bare)
    assert await passed(bare, lease, await opened(bare, lease), 2) == restored
    assert await open_window(bare, lease) is None
    assert await count_backlog(bare, "kafka") == Backlog(0, 0.0, 0)
    await submit(bare, 5)
    new = [eid for eid in await event_ids(bare) if eid not in restored]
    assert await passed(bare, lease, await opened(bare, lease), 2) == new
    assert [lag.behind_s for lag in await list_cursor_lags(bare) if lag.name == "kafka"] == [None]


@pytest.mark.parametrize("most", [1, 100], ids=["in-pages", "at-once"])
async def test_events_of_jobs_that_nothing_is_known_of_are_passed_untold(
    bare: Connection, most: int
) -> None:
    lease = await taken(bare)
    unknown, _ = await submit(bare, 2)
    await settle(bare, await claim_one(bare), Failed("long" * 500))
    known = await bare.fetch(
        "SELECT eid FROM jobqueue.job_events e JOIN jobqueue.jobs j ON j.id = e.job "
        "WHERE j.job_id <> $1 ORDER BY 1", unknown
    )  # fmt: skip
    await bare.execute("DELETE FROM jobqueue.jobs WHERE job_id = $1", unknown)
    told = await passed(bare, lease, await opened(bare, lease), most)
    assert told == [row["eid"] for row in known]
    assert await open_window(bare, lease) is None


@pytest.mark.direct
@pytest.mark.parametrize("lost", [False, True], ids=["extended", "lost"])
async def test_a_window_opens_though_its_lease_is_extended_meanwhile_and_not_once_it_is_lost(
    db: Connection, another: Connect, *, lost: bool
) -> None:
    lease = await taken(db)
    await submit(db)
    opener, other = await another(), await another()
    async with other.transaction():
        assert await extend_cursor(other, lease, 0.0 if lost else 60.0)
        if lost:
            assert await take_cursor(other, "kafka", "another server", 60.0)
        opening = asyncio.create_task(open_window(opener, lease))
        await eventually(lambda: waits_for_lock(db, opener), what="it waits for the other one")
    window = await opening
    assert (window is None) == lost


@pytest.mark.parametrize("events", [None, 2], ids=["in-pages", "at-once"])
async def test_whoever_lost_the_cursor_reads_no_later_event_of_a_job_without_its_earlier_one(
    db: Connection, another: Connect, events: int | None
) -> None:
    old = await taken(db)
    late = await another()
    async with late.transaction():
        await submit(late)
        await submit(db)
        await claim(late, 1, running=False)
        await submit(db)
        window = await opened(db, old)
        await db.execute("UPDATE jobqueue.event_cursors SET expires_at = now()")
        new = await take_cursor(db, "kafka", "another server", 60.0)
        assert new is not None
        assert await move_cursor(db, new, window.last)
    ids = await event_ids(db)
    assert window.after == ids[0], "the first event of the late job lies before what was opened"
    later = await opened(db, new)
    stale = replace(window, events=events)
    assert (await read_page(db, old, stale, most_events=9, most_bytes=1_000)).groups == []
    assert await passed(db, new, later, 9) == [ids[0], ids[2]]


async def test_an_event_that_was_resent_in_vain_is_not_sent_again_unasked(db: Connection) -> None:
    lease = await taken(db)
    await submit(db)
    window = await opened(db, lease)
    page = await read_page(db, lease, window, most_events=10, most_bytes=1_000)
    (event,) = [event for group in page.groups for event in group.events()]
    await park_events(db, [(event, "too large")])
    assert await resend_parked(db, None) == 1
    assert await list_resends(db, 10) == [event]
    await park_events(db, [(event, "still too large")])
    assert await list_resends(db, 10) == []
