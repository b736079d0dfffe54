"""The loops of the reaper as they run in a server, two of each at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from jobqueue.domain.outcome import Failed
from jobqueue.errors import Unavailable
from jobqueue.lease.takeover import Page, expired
from jobqueue.reaper import scheduler
from jobqueue.reaper.duty import Duty
from jobqueue.reaper.expirer import LeaseReaper, assignment_timeout, expirer
from jobqueue.reaper.scheduler import Promoter, TtlExpirer
from jobqueue.reaper.upkeep import DeletedQueues, JobPruner, WorkerUpkeep
from jobqueue.runtime.service import TURN_ENDED, TurnEnded
from jobqueue.store.pool import Connection, Pool, create_pool
from jobqueue.store.wakeups import Listener
from jobqueue.store.workers import register_worker
from tests.support.duties import running, twice
from tests.support.store import (
    add_queue,
    claim,
    delete_queue,
    end_ttl,
    expire_leases,
    make_due,
    path,
    row_of,
    settle,
    status,
    submit,
)
from tests.support.waiting import HANG_S, eventually
from tests.support.workers import facts

HOUR_S = 3_600.0


@asynccontextmanager
async def hints(database: str) -> AsyncIterator[set[str]]:
    """Collect the queues that are announced."""
    heard: set[str] = set()
    connected = asyncio.Event()

    def hear(names: frozenset[str]) -> None:
        connected.set()
        heard.update(names)

    listener = Listener(database, hear)
    await listener.start()
    await connected.wait()
    yield heard
    await listener.stop()


async def everyone(db: Connection, wanted: str) -> bool:
    """Tell whether all jobs have this status."""
    found = await db.fetch("SELECT DISTINCT status FROM jobqueue.job_status")
    return [r["status"] for r in found] == [wanted]


async def test_expired_leases_are_taken_back_and_their_workers_woken(
    database: str, db: Connection, pool: Pool
) -> None:
    await add_queue(db)
    ids = await submit(db, 25)
    await claim(db, 25, running=False)
    await expire_leases(db)
    duties = twice(lambda p: expirer(p, interval_s=0.05, batch_size=4), pool)
    async with hints(database) as heard, running(duties):
        await eventually(lambda: everyone(db, "PENDING"))

        async def announced() -> bool:
            return heard == {"q"}

        await eventually(announced, what="the hint")
    for job_id in ids:
        assert (await path(db, job_id)).count("FAILED:LEASE_EXPIRED") == 1


async def test_jobs_assigned_for_too_long_fail(db: Connection, pool: Pool) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await claim(db, 1, running=False)
    async with running(twice(lambda p: assignment_timeout(p, timeout_s=0.05), pool)):
        await eventually(lambda: everyone(db, "FAILED"))
    assert (await path(db, job_id))[-1] == "FAILED:ASSIGNMENT_TIMEOUT"


async def test_due_retries_are_promoted_once_and_their_workers_woken(
    database: str, db: Connection, pool: Pool
) -> None:
    await add_queue(db)
    ids = await submit(db, 25)
    for job in await claim(db, 25):
        await settle(db, job, Failed("boom"))
    await make_due(db)
    duties = twice(lambda p: Promoter(p, interval_s=0.05, batch_size=4), pool)
    async with hints(database) as heard, running(duties):
        await eventually(lambda: everyone(db, "PENDING"))

        async def announced() -> bool:
            return heard == {"q"}

        await eventually(announced, what="the hint")
    for job_id in ids:
        assert (await path(db, job_id)).count("PENDING:RETRY_DUE") == 1


async def be_due(db: Connection, job_id: UUID, since_s: float) -> None:
    await db.execute(
        "UPDATE jobqueue.scheduled s SET due_at = clock_timestamp() - make_interval(secs => $2)"
        " FROM jobqueue.jobs j WHERE j.id = s.id AND j.job_id = $1",
        job_id,
        since_s,
    )


async def test_a_promoter_whose_looks_are_dear_goes_on_where_it_was_and_looks_behind_at_times(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "CHEAP_S", -0.1)  # of two looks; the next one 6 s later
    await add_queue(db)
    late, soon = await submit(db, 2, delay_s=HOUR_S)
    promoter = Promoter(pool)
    await promoter.act()
    await promoter.act()
    await be_due(db, late, 60.0)
    await be_due(db, soon, 0.5)
    await promoter.act()
    assert await row_of(db, "ready", soon) is not None
    assert await row_of(db, "ready", late) is None

    async def promoted() -> bool:
        await promoter.act()
        return await row_of(db, "ready", late) is not None

    await eventually(promoted, within_s=HANG_S, what="a look at everything")


async def test_jobs_never_started_die_with_their_ttl(db: Connection, pool: Pool) -> None:
    await add_queue(db)
    await submit(db, 10, ttl_s=HOUR_S)
    await end_ttl(db)
    async with running(twice(lambda p: TtlExpirer(p, interval_s=0.05, batch_size=3), pool)):
        await eventually(lambda: everyone(db, "DEAD_LETTERED"))


async def test_done_jobs_are_pruned_page_by_page(db: Connection, pool: Pool) -> None:
    await add_queue(db)
    await submit(db, 10)
    for job in await claim(db, 10):
        await settle(db, job)
    async with running([JobPruner(pool, retention_s=0.0, interval_s=0.05, batch_size=3)]):
        await eventually(lambda: db.fetchval("SELECT count(*) = 0 FROM jobqueue.jobs"))
    assert await db.fetchval("SELECT count(*) FROM jobqueue.finished") == 0


async def test_a_walk_ends_where_jobs_are_too_young_but_for_one_a_day(
    db: Connection, pool: Pool
) -> None:
    await add_queue(db)
    await submit(db, 10)
    for job in await claim(db, 10):
        await settle(db, job)
    pruner = JobPruner(pool, retention_s=3_600.0, batch_size=3)
    assert [await pruner.act() for _ in range(4)] == [0.0, 0.0, 0.0, None]
    assert [await pruner.act() for _ in range(2)] == [None, None]


async def test_silent_workers_are_shown_offline_and_keep_their_leases(
    db: Connection, pool: Pool
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    worker = await register_worker(db, facts("silent"))
    await claim(db, 1, worker=worker)
    async with running([WorkerUpkeep(pool, heartbeat_timeout_s=0.2)]):
        await eventually(lambda: db.fetchval("SELECT status = 'OFFLINE' FROM jobqueue.workers"))
    assert await status(db, job_id) == "RUNNING"


async def test_what_deleted_queues_held_is_cancelled(db: Connection, pool: Pool) -> None:
    await add_queue(db)
    await submit(db, 10)
    await delete_queue(db, "q", force=True)
    async with running(twice(lambda p: DeletedQueues(p, interval_s=0.05, batch_size=3), pool)):
        await eventually(lambda: everyone(db, "DEAD_LETTERED"))


async def due(db: Connection) -> None:
    await submit(db, 3, delay_s=60.0)
    await make_due(db)


async def late(db: Connection) -> None:
    await submit(db, 3, ttl_s=60.0)
    await end_ttl(db)


async def lost(db: Connection) -> None:
    await submit(db, 3)
    await claim(db, 3)
    await expire_leases(db)


async def done(db: Connection) -> None:
    await submit(db, 3)
    for job in await claim(db, 3):
        await settle(db, job)


async def orphaned(db: Connection) -> None:
    await submit(db, 3)
    await delete_queue(db, "q", force=True)


@pytest.mark.parametrize(
    ("work", "duty"),
    [
        (due, lambda pool: Promoter(pool, batch_size=2)),
        (late, lambda pool: TtlExpirer(pool, batch_size=2)),
        (lost, lambda pool: expirer(pool, batch_size=2)),
        (done, lambda pool: JobPruner(pool, retention_s=0.0, batch_size=2)),
        (orphaned, lambda pool: DeletedQueues(pool, batch_size=2)),
    ],
    ids=["promoter", "ttl", "reaper", "pruner", "queues"],
)
async def test_a_duty_goes_on_at_once_after_a_full_batch_and_rests_after_the_last(
    db: Connection,
    pool: Pool,
    work: Callable[[Connection], Awaitable[None]],
    duty: Callable[[Pool], Duty],
) -> None:
    await add_queue(db)
    await work(db)
    working = duty(pool)
    assert await working.act() == 0.0
    assert await working.act() != 0.0


async def test_a_database_that_went_away_is_found_again(database: str, db: Connection) -> None:
    await add_queue(db)
    await submit(db)
    pool = await create_pool(database, size=1, application_name="cut-me")
    reaping = expirer(pool, interval_s=0.05)
    failed: list[TurnEnded] = []
    stop = TURN_ENDED.subscribe(lambda turn: failed.append(turn) if turn.error else None)

    async def cut() -> bool:
        await db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'cut-me'"
        )
        return bool(failed)

    async with running([reaping]):
        await eventually(cut, what="a turn meets the cut")
        await claim(db, 1)
        await expire_leases(db)
        await eventually(lambda: everyone(db, "FAILED"))
    stop()
    await pool.close()
    assert all(isinstance(turn.error, Unavailable) for turn in failed)


async def test_a_statement_that_hangs_ends_with_its_turn(db: Connection, pool: Pool) -> None:
    class Hanging(Duty):
        async def act(self) -> None:
            await self.work(lambda c: c.execute("SELECT pg_sleep(3600)"))

    with pytest.raises(Exception, match="did not answer in time"):
        await Hanging("hanging", pool, interval_s=1.0, timeout_s=0.2).turn()


async def test_the_wait_for_a_connection_is_no_part_of_what_work_takes(pool: Pool) -> None:
    duty = Duty("waits", pool, interval_s=HOUR_S)
    held = [await pool.acquire() for _ in range(pool.get_max_size())]
    timed = asyncio.create_task(duty.timed(lambda c: c.fetchval("SELECT 1")))
    await asyncio.wait({timed}, timeout=0.1)
    assert not timed.done(), "there is no connection"
    released_at = time.monotonic()
    for connection in held:
        await pool.release(connection)
    _, took_s = await timed
    assert took_s <= time.monotonic() - released_at


async def test_only_looks_without_a_find_make_the_reaper_rest(pool: Pool) -> None:
    pages = [Page(), Page(taken=1), Page()]

    class Slow(LeaseReaper):
        async def timed(self, work: object) -> tuple[Page, float]:  # type: ignore[override]
            return pages.pop(0), HOUR_S

    reaper = Slow("slow", pool, expired(), interval_s=1.0, batch_size=1, crash_limit=1)
    assert await reaper.act() == 1.0, "once may be chance"
    assert await reaper.act() is None, "it found something: the usual interval"
    rest_s = await reaper.act()
    assert rest_s is not None
    assert rest_s > 1.0, "what was found between two dear looks does not make them cheap"
