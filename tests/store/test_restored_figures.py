"""Figures after a restore: counted anew, and nothing twice (R-5.2)."""

import pytest

from jobqueue.domain.state import JobStatus
from jobqueue.store.doctor import find_wrong_figures
from jobqueue.store.pool import Connection
from jobqueue.store.queues import get_queue_stats
from jobqueue.store.upkeep import roll_stats
from tests.support.soundness import assert_sound, counted_depths, real_depths
from tests.support.store import (
    add_queue,
    claim_one,
    pass_transactions,
    restore_dump,
    settle,
    submit,
)

_YET_TO_COME = """
    SELECT count(*) FROM jobqueue.job_events WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())
"""


@pytest.mark.parametrize(
    "spoil",
    [
        "system_identifier = system_identifier + 1",
        "snapshot = (1e18::bigint || ':' || 1e18::bigint || ':')::pg_snapshot",
    ],
    ids=["another cluster", "from the future"],
)
async def test_a_restored_cursor_is_void_and_everything_is_counted_anew(
    db: Connection, spoil: str
) -> None:
    await add_queue(db)
    await submit(db, 3)
    await settle(db, await claim_one(db))
    await roll_stats(db)
    await submit(db, 2)
    await db.execute(f"UPDATE jobqueue.event_cursors SET {spoil}")
    await db.execute("UPDATE jobqueue.queue_depths SET depth = 99")
    await roll_stats(db)
    await assert_sound(db)
    await submit(db)
    (before,) = await get_queue_stats(db, "q", 3600.0)
    assert before.depth[JobStatus.PENDING] == 5
    assert await roll_stats(db) == 1
    (after,) = await get_queue_stats(db, "q", 3600.0)
    assert after.done_total == 1


@pytest.mark.direct
async def test_events_of_another_cluster_whose_transactions_are_yet_to_come_are_not_counted_twice(
    bare: Connection,
) -> None:
    await add_queue(bare)
    await submit(bare, 3)
    await settle(bare, await claim_one(bare))
    await restore_dump(bare)
    assert await roll_stats(bare, 1) == 0, "counted anew"
    for rolled in (0, 1):
        assert await roll_stats(bare, 1) == rolled
        assert await counted_depths(bare) == await real_depths(bare)
        assert await find_wrong_figures(bare) == []
        await submit(bare)
    assert await counted_depths(bare) == await real_depths(bare)


@pytest.mark.parametrize("rolls", [0, 1], ids=["as told", "rolled"])
async def test_events_of_another_cluster_are_not_counted_once_more_when_their_transactions_come(
    bare: Connection, rolls: int
) -> None:
    await add_queue(bare)
    await submit(bare, 3)
    await settle(bare, await claim_one(bare))
    await restore_dump(bare, ahead=20_000)
    assert await roll_stats(bare) == 0, "counted anew"
    assert await bare.fetchval(_YET_TO_COME) == 3 + 2 + 1
    await pass_transactions(bare)
    assert await bare.fetchval(_YET_TO_COME) == 0
    await submit(bare)
    for _ in range(rolls):
        assert await roll_stats(bare) == 1
    assert await counted_depths(bare) == await real_depths(bare)
    assert await find_wrong_figures(bare) == []


async def test_nor_when_the_clock_was_days_ahead_while_they_were_counted_and_is_set_back(
    bare: Connection,
) -> None:
    await add_queue(bare)
    await submit(bare, 3)
    await bare.execute("ALTER TABLE jobqueue.job_events DISABLE TRIGGER job_events_immutable")
    await bare.execute("UPDATE jobqueue.job_events SET at = at - interval '30 h'")
    await bare.execute(
        "UPDATE jobqueue.event_cursors SET updated_at = updated_at - interval '30 h'"
    )
    await restore_dump(bare, ahead=20_000)
    assert await roll_stats(bare) == 0, "counted anew"
    await bare.execute("UPDATE jobqueue.event_cursors SET since = since - interval '2 days'")
    await pass_transactions(bare)
    assert await counted_depths(bare) == await real_depths(bare)
    assert await find_wrong_figures(bare) == []
