"""Events after a restore: of a dump, and of what happened since, none is missed (R-6.2)."""

from collections.abc import Awaitable, Callable

import pytest

from jobqueue.store.doctor import find_stale_numbers
from jobqueue.store.events import (
    BEGINNING,
    Step,
    add_cursor,
    count_backlog,
    list_events_after,
    start_tail,
)
from jobqueue.store.jobs import delete_job
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import forget_removed_jobs, roll_stats
from tests.store.conftest import Connect
from tests.support.cursor import event_ids, opened, passed, retaken, taken
from tests.support.store import (
    add_queue,
    claim_one,
    pass_transactions,
    restore_dump,
    settle,
    submit,
)


async def _nothing(_: Connection) -> None:
    """Let nothing happen."""


async def test_what_was_open_when_the_cursor_passed_by_is_told_however_low_its_ids(
    bare: Connection, another: Connect
) -> None:
    lease = await taken(bare)
    late = await another()
    async with late.transaction():
        await submit(late)
        await submit(bare)
        (told,) = await passed(bare, lease, await opened(bare, lease), 9)
    await bare.execute("UPDATE jobqueue.event_cursors SET last_eid = last_eid + 20000")
    await bare.execute(
        "SELECT setval('jobqueue.event_id_seq', last_value + 20000) FROM jobqueue.event_id_seq"
    )
    await restore_dump(bare)
    (untold,) = set(await event_ids(bare)) - {told}
    lease = await retaken(bare)
    assert untold in await passed(bare, lease, await opened(bare, lease), 30_000)


async def test_no_event_is_missed_whose_transaction_comes_to_pass_before_it_is_read(
    bare: Connection,
) -> None:
    await taken(bare)
    await submit(bare, 5)
    await restore_dump(bare, ahead=20_000)
    lease = await retaken(bare)
    await pass_transactions(bare)
    assert await passed(bare, lease, await opened(bare, lease), 2) == await event_ids(bare)


async def test_no_event_is_missed_that_comes_where_the_clock_is_days_behind(
    bare: Connection,
) -> None:
    await taken(bare)
    await submit(bare, 2)
    await bare.execute("UPDATE jobqueue.event_cursors SET since = now() + interval '3 days'")
    await restore_dump(bare)
    lease = await retaken(bare)
    await passed(bare, lease, await opened(bare, lease), 9)
    await submit(bare)
    (newest,) = await passed(bare, lease, await opened(bare, lease), 9)
    assert newest == (await event_ids(bare))[-1]


@pytest.mark.parametrize("later", [_nothing, pass_transactions], ids=["to come", "passed"])
async def test_a_job_that_is_removed_before_the_cursor_begins_anew_is_not_forgotten(
    bare: Connection, later: Callable[[Connection], Awaitable[None]]
) -> None:
    await taken(bare)
    await submit(bare)
    await settle(bare, await claim_one(bare))
    await restore_dump(bare, ahead=20_000)
    (removed,) = await submit(bare)
    await settle(bare, await claim_one(bare))
    await delete_job(bare, removed)
    await bare.execute("UPDATE jobqueue.removed_jobs SET removed_at = removed_at - interval '1 h'")
    await later(bare)
    await roll_stats(bare)
    assert await forget_removed_jobs(bare) == 0
    lease = await retaken(bare)
    window = await opened(bare, lease)
    assert await passed(bare, lease, window, 9) == await event_ids(bare)
    assert await forget_removed_jobs(bare) == 1


async def test_what_waits_for_a_cursor_that_is_void_is_told_by_ids(bare: Connection) -> None:
    await taken(bare)
    await submit(bare, 3)
    await restore_dump(bare)
    assert (await count_backlog(bare, "kafka")).events == 3


async def test_the_past_of_a_dump_is_shown_though_its_transactions_are_yet_to_come(
    bare: Connection,
) -> None:
    await add_queue(bare)
    await submit(bare, 3)
    await restore_dump(bare)
    await submit(bare)
    step = Step(BEGINNING, await start_tail(bare))
    page = await list_events_after(bare, step, after=0, limit=100, queue=None)
    assert [event.event_id for event in page.events] == await event_ids(bare)


async def test_numbers_are_sound_before_the_first_event(db: Connection) -> None:
    await add_cursor(db, "kafka")
    await db.execute("UPDATE jobqueue.event_cursors SET system_identifier = 0")
    await roll_stats(db)
    await retaken(db)
    assert await find_stale_numbers(db) == []
