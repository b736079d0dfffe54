"""Figures of the whole system that metrics show (R-7.1)."""

import pytest

from jobqueue.domain.state import JobStatus
from jobqueue.domain.worker import WorkerCommand
from jobqueue.store.figures import count_active_workers, count_ready, read_oldest_xmin
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.queues import pause_queue
from jobqueue.store.signals import QUERY_ENDED, QueryEnded
from jobqueue.store.upkeep import roll_stats
from jobqueue.store.workers import beat_worker, register_worker
from jobqueue.submission import figures as room
from jobqueue.submission.figures import FIGURES, FigureReader, Figures, read_figures
from tests.store.conftest import Connect
from tests.support.store import FAILURE, add_queue, claim, claim_one, delete_queue, settle, submit
from tests.support.waiting import eventually
from tests.support.workers import facts


async def test_claimable_jobs_are_counted_by_queue_up_to_a_limit(db: Connection) -> None:
    for name in ("q", "empty", "gone"):
        await add_queue(db, name)
    await delete_queue(db, "gone", force=False)
    await submit(db, 5)
    await submit(db, 3, delay_s=600.0)
    await claim(db, 1)
    assert await count_ready(db, 10) == {"q": 4, "empty": 0}
    assert (await count_ready(db, 2))["q"] == 2


async def test_runnable_are_those_that_run_or_could_of_unpaused_queues(db: Connection) -> None:
    for name in ("q", "paused"):
        await add_queue(db, name)
        await submit(db, 4, queue=name)
    await submit(db, 7, delay_s=600.0)
    await settle(db, await claim_one(db), FAILURE)
    await claim(db, 1)
    await claim(db, 1, running=False)
    await pause_queue(db, "paused", paused=True)
    figures = {queue.name: queue for queue in (await read_figures(db)).queues}
    assert (figures["q"].runnable, figures["q"].depth[JobStatus.PENDING]) == (3, 8)
    assert (figures["paused"].runnable, figures["paused"].depth[JobStatus.PENDING]) == (0, 4)
    assert figures["q"].oldest_age_s > 0


@pytest.mark.parametrize(
    ("few", "expected"),
    [({}, 6), ({"DELAYED_COUNTED": 8}, 6), ({"DELAYED_COUNTED": 8, "READY_COUNTED": 4}, 13)],
    ids=["few are delayed", "few are claimable", "many are both"],
)
async def test_claimable_jobs_are_known_without_counting_all(
    db: Connection, monkeypatch: pytest.MonkeyPatch, few: dict[str, int], expected: int
) -> None:
    for name, count in few.items():
        monkeypatch.setattr(room, name, count)
    await add_queue(db)
    await submit(db, 6)
    await submit(db, 7, delay_s=600.0)
    await settle(db, await claim_one(db), FAILURE)
    await submit(db, 1)
    (queue,) = (await read_figures(db)).queues
    assert queue.runnable == expected


async def test_jobs_of_a_deleted_queue_are_not_those_of_the_one_that_has_its_name(
    db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_queue(db)
    await submit(db, 7, delay_s=600.0)
    await delete_queue(db, "q", force=True)
    await add_queue(db)
    await submit(db, 3)
    await submit(db, 2, delay_s=600.0)
    for counted in (20_000, 8):
        monkeypatch.setattr(room, "DELAYED_COUNTED", counted)
        (queue,) = (await read_figures(db)).queues
        assert (queue.runnable, queue.depth[JobStatus.PENDING]) == (3, 5)


async def test_no_queue_has_less_than_nothing_to_run_while_its_depth_is_wrong(
    bare: Connection,
) -> None:
    await add_queue(bare)
    await submit(bare, 4, delay_s=600.0)
    await roll_stats(bare)
    await bare.execute("UPDATE jobqueue.queue_depths SET depth = 0")
    (queue,) = (await read_figures(bare)).queues
    assert (queue.runnable, queue.depth[JobStatus.PENDING]) == (0, 0)


async def test_workers_that_drain_are_not_active(db: Connection) -> None:
    first, _ = [await register_worker(db, facts(worker_id=name)) for name in ("w-1", "w-2")]
    assert await count_active_workers(db) == 2
    assert await beat_worker(db, first, draining=True) is WorkerCommand.NONE
    assert await count_active_workers(db) == 1


@pytest.mark.direct
async def test_the_oldest_transaction_that_keeps_dead_rows_is_found(
    db: Connection, another: Connect
) -> None:
    holder = await another()
    async with holder.transaction(isolation="repeatable_read"):
        await holder.execute("SELECT FROM jobqueue.jobs")

        async def older() -> bool:
            return await read_oldest_xmin(db) > 0.5

        await eventually(older, within_s=30, what="an old transaction")
    async with holder.transaction():
        # It sees each statement anew, and has written nothing: it keeps nobody's rows.
        await holder.execute("SELECT FROM jobqueue.jobs")
        assert await read_oldest_xmin(db) < 0.5


async def test_a_prepared_transaction_counts_though_nobody_is_connected(
    db: Connection, another: Connect
) -> None:
    if await db.fetchval("SELECT current_setting('max_prepared_transactions')") == "0":
        pytest.skip("this PostgreSQL takes no prepared transactions")
    other = await another()
    await other.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'left behind'")
    try:
        assert await read_oldest_xmin(db) > 0
    finally:
        await other.execute("ROLLBACK PREPARED 'left behind'")


async def test_the_reader_signals_what_it_read_and_statements_are_told_by_name(
    db: Connection, pool: Pool
) -> None:
    await add_queue(db)
    read: list[Figures] = []
    queries: list[QueryEnded] = []
    stops = [FIGURES.subscribe(read.append), QUERY_ENDED.subscribe(queries.append)]
    await FigureReader(pool).turn()

    async def heard() -> bool:
        return {"get_queue_stats", "count_delayed"} <= {query.name for query in queries}

    await eventually(heard, what="the names of the statements")
    for stop in stops:
        stop()
    assert [queue.name for queue in read[0].queues] == ["q"]
    assert all(query.ok and query.seconds > 0 for query in queries)
