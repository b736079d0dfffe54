"""Queues: policy, pause, deletion with and without jobs in them."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Unhandled
from jobqueue.domain.queue import QueuePolicy
from jobqueue.store.jobs import cancel_job
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.queues import (
    cancel_queue_jobs,
    count_queue_cancelled,
    count_queue_live,
    create_queue,
    find_oldest_live,
    list_queue_serving,
    list_queues,
    list_unhandled,
    pause_queue,
    update_queue,
)
from jobqueue.store.signals import QUERY_ENDED
from jobqueue.store.upkeep import roll_stats
from jobqueue.submission.queues import Queues
from tests.store.conftest import Connect
from tests.support.store import (
    FAILURE,
    add_queue,
    claim,
    claim_one,
    delete_queue,
    path,
    probes,
    row_of,
    settle,
    spec,
    status,
    store,
    submit,
    waits_for_lock,
)
from tests.support.waiting import eventually

POLICY = QueuePolicy(
    max_retries=7,
    ttl_s=60.0,
    retry=RetryPolicy(1.0, 9.0, 3.0),
    priority_weights={9: 100, 0: 1},
    max_running=4,
)


async def test_a_queue_gives_back_its_policy(db: Connection) -> None:
    made = await create_queue(db, "q", POLICY)
    assert made is not None
    assert (made.name, made.policy, made.paused) == ("q", POLICY, False)
    assert await list_queues(db, "q") == [made]


async def test_a_name_is_taken_once(db: Connection) -> None:
    await add_queue(db)
    assert await create_queue(db, "q", POLICY) is None


async def test_of_two_creations_one_wins(db: Connection, another: Connect) -> None:
    connections = [await another() for _ in range(4)]
    made = await asyncio.gather(*[create_queue(c, "q", POLICY) for c in connections])
    assert sum(queue is not None for queue in made) == 1


async def test_an_update_applies_to_the_queue_as_it_was_read(db: Connection) -> None:
    await add_queue(db)
    (read,) = await list_queues(db, "q")
    updated = await update_queue(db, "q", POLICY, read.updated_at)
    assert updated is not None
    assert updated.policy == POLICY
    assert updated.updated_at > read.updated_at
    assert await update_queue(db, "q", QueuePolicy(), read.updated_at) is None
    assert await update_queue(db, "nowhere", POLICY, datetime.now(UTC)) is None


async def test_pausing_twice_changes_nothing_the_second_time(db: Connection) -> None:
    await add_queue(db)
    first = await pause_queue(db, "q", paused=True)
    second = await pause_queue(db, "q", paused=True)
    assert first is not None
    assert first.paused
    assert first == second
    assert await pause_queue(db, "nowhere", paused=True) is None


async def test_a_deleted_queue_is_not_paused_with_the_new_one_of_its_name(
    db: Connection,
) -> None:
    await add_queue(db)
    await delete_queue(db, "q", force=False)
    assert await pause_queue(db, "q", paused=True) is None
    await add_queue(db)
    await pause_queue(db, "q", paused=True)
    paused = await db.fetch("SELECT paused FROM jobqueue.queues ORDER BY queue_id")
    assert [row["paused"] for row in paused] == [False, True]


async def test_queues_are_listed_by_name(db: Connection) -> None:
    for name in ("b", "B", "a-1"):
        await add_queue(db, name)
    assert [queue.name for queue in await list_queues(db)] == ["B", "a-1", "b"]


async def test_a_worker_learns_how_its_queues_are_served(db: Connection) -> None:
    await create_queue(db, "limited", POLICY)
    await add_queue(db, "paused")
    await pause_queue(db, "paused", paused=True)
    await add_queue(db, "deleted")
    await delete_queue(db, "deleted", force=False)
    found = await list_queue_serving(db, ["limited", "paused", "deleted", "unknown"])
    serving = {one.name: one for one in found}
    assert serving.keys() == {"limited", "paused"}
    assert serving["limited"].limited
    assert serving["limited"].priority_weights == {9: 100, 0: 1}
    assert serving["paused"].paused


@pytest.mark.parametrize("where", ["ready", "scheduled", "leases", "finished"])
async def test_a_queue_with_live_jobs_is_deleted_only_by_force(db: Connection, where: str) -> None:
    await add_queue(db)
    await submit(db, delay_s=60.0 if where == "scheduled" else 0.0)
    if where in {"leases", "finished"}:
        job = await claim_one(db)
        if where == "finished":
            await settle(db, job)
    state = (await delete_queue(db, "q", force=False)).state
    assert state == ("deleted" if where == "finished" else "not_empty")
    if state == "not_empty":
        assert (await delete_queue(db, "q", force=True)).state == "deleted"
    assert await list_queues(db, "q") == []
    assert (await delete_queue(db, "q", force=True)).state == "not_found"


async def test_a_deletion_that_waits_for_another_one_finds_it_done(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    first, second = await another(), await another()
    async with first.transaction():
        assert (await delete_queue(first, "q", force=False)).state == "deleted"
        waiting = asyncio.create_task(delete_queue(second, "q", force=False))
        await eventually(lambda: waits_for_lock(db, second))
    assert (await waiting).state == "deleted"


async def test_what_a_deleted_queue_held_is_cancelled_and_running_jobs_are_asked(
    db: Connection,
) -> None:
    await add_queue(db)
    await add_queue(db, "other")
    bystanders = [
        *await submit(db, 3, queue="other"),
        *await submit(db, queue="other", delay_s=60.0),
    ]
    for at_once in (True, False):
        await claim(db, 1, where=probes(["other"], [0]), running=at_once)
    (failed,) = await submit(db)
    await settle(db, await claim_one(db), FAILURE)
    (running,), (assigned,) = await submit(db), await submit(db)
    job = await claim_one(db)
    await claim_one(db, running=False)
    (pending,), (delayed,) = await submit(db), await submit(db, delay_s=60.0)
    deletion = await delete_queue(db, "q", force=True)
    assert deletion.queue is not None
    assert await count_queue_live(db, deletion.queue, limit=10) == 5
    assert (await cancel_queue_jobs(db, 10)).count == 5
    assert await count_queue_live(db, deletion.queue) == 1
    assert (await cancel_queue_jobs(db, 10)).count == 0
    for job_id in (failed, assigned, pending, delayed):
        assert (await path(db, job_id))[-1] == "DEAD_LETTERED:CANCELLED"
    assert await status(db, running) == "RUNNING"
    await settle(db, job, FAILURE)
    assert (await path(db, running))[-1] == "DEAD_LETTERED:CANCELLED"
    assert await count_queue_live(db, deletion.queue) == 0
    states = [await status(db, job_id) for job_id in bystanders]
    assert states == ["RUNNING", "ASSIGNED", "PENDING", "PENDING"]
    assert not await db.fetchval("SELECT bool_or(cancel_requested) FROM jobqueue.leases")


@pytest.mark.parametrize("force", [False, True])
async def test_dead_jobs_are_not_read_to_delete_a_queue_in_which_nothing_lived(
    db: Connection, pool: Pool, *, force: bool
) -> None:
    await add_queue(db)
    (dead,) = await submit(db)
    await cancel_job(db, dead, running=False)
    asked: list[str] = []
    stop = QUERY_ENDED.subscribe(lambda ended: asked.append(ended.name))
    queues = Queues(pool, Limits(), QueuePolicy(), lambda _queues: None)
    assert await queues.delete("q", force=force) == 0
    await eventually(lambda: _has(asked, "count_queue_live"))
    stop()
    assert "count_queue_cancelled" not in asked


async def _has(asked: Sequence[str], name: str) -> bool:
    return name in asked


async def test_only_what_is_as_young_as_what_lived_is_read_to_count_the_cancelled(
    db: Connection,
) -> None:
    await add_queue(db)
    await submit(db, 2)
    await submit(db, delay_s=60.0)
    queue = (await delete_queue(db, "q", force=True)).queue
    assert queue is not None
    oldest = await find_oldest_live(db, queue)
    assert oldest is not None
    await cancel_queue_jobs(db, 10)
    assert await find_oldest_live(db, queue) is None
    assert await count_queue_cancelled(db, queue, oldest) == 3
    assert await count_queue_cancelled(db, queue, oldest + 1) == 2


async def test_a_held_job_of_a_deleted_queue_is_left_for_the_next_sweep(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await submit(db, 3)
    await delete_queue(db, "q", force=True)
    holder = await another()
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.ready LIMIT 1 FOR UPDATE")
        assert (await cancel_queue_jobs(db, 10)).count == 2
    assert (await cancel_queue_jobs(db, 10)).count == 1


async def test_a_job_that_slipped_into_a_deleted_queue_is_swept(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    late = await another()
    async with late.transaction():
        (stored,) = await store(late, [spec()])
        assert (await delete_queue(db, "q", force=False)).state == "deleted"
    assert await claim(db, 1) == []
    assert (await cancel_queue_jobs(db, 10)).count == 1
    assert (await path(db, stored.job_id))[-1] == "DEAD_LETTERED:CANCELLED"


async def test_a_job_that_was_left_in_a_queue_deleted_long_ago_is_swept_by_the_figures(
    db: Connection,
) -> None:
    await add_queue(db)
    await submit(db, 1)
    await submit(db, 1, delay_s=3600.0)
    await roll_stats(db)
    await db.execute("UPDATE jobqueue.queues SET deleted_at = now() - interval '1 day'")
    assert (await cancel_queue_jobs(db, 10)).count == 2


async def test_jobs_without_a_handler_are_counted_by_queue_and_type(db: Connection) -> None:
    await add_queue(db)
    for type_ in ("x", "x", None):
        (job_id,) = await submit(db, type=type_)
        await settle(db, await claim_one(db, running=False), Unhandled())
        waiting = await row_of(db, "scheduled", job_id)
        assert waiting is not None
        assert waiting["unhandled"] == 1
    assert await list_unhandled(db) == [("q", "x", 2), ("q", None, 1)]
