"""Figures are counted anew while jobs are removed, which no event tells."""

import asyncio

from jobqueue.domain.state import JobStatus
from jobqueue.store.doctor import find_wrong_figures
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import prune_jobs, roll_stats
from tests.store.conftest import Connect
from tests.support.soundness import counted_depths
from tests.support.store import add_queue, claim, settle, submit, waits_for_lock
from tests.support.waiting import eventually


async def test_what_is_removed_while_figures_are_counted_anew_is_not_put_back(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await submit(db, 3)
    for job in await claim(db, 2):
        await settle(db, job)
    await roll_stats(db)
    await db.execute("UPDATE jobqueue.event_cursors SET system_identifier = 0")
    holder, counter, pruner = await another(), await another(), await another()
    async with holder.transaction():
        # The row that is written first: what comes after the count waits, and so ours may overtake.
        await holder.execute(
            "SELECT FROM jobqueue.queue_depths WHERE status = 'PENDING' FOR UPDATE"
        )
        counting = asyncio.create_task(roll_stats(counter))
        await eventually(lambda: waits_for_lock(db, counter), what="it has counted")
        pruning = asyncio.create_task(prune_jobs(pruner, after=0, retention_s=0.0, limit=10))

        async def pruned_or_waits() -> bool:
            return pruning.done() or await waits_for_lock(db, pruner)

        await eventually(pruned_or_waits, what="the other one is at the depths too")
    assert await counting == 0
    assert (await pruning).removed == 2
    assert await find_wrong_figures(db) == []
    assert await counted_depths(db) == {("q", JobStatus.PENDING): 1}
