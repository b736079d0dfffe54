"""A worker whose outcomes cannot be written takes no more jobs than it has room for (R-4.1)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from jobqueue.domain.outcome import Completed, Failed, Released
from jobqueue.errors import Unavailable
from jobqueue.lease.direct import DirectLeases
from jobqueue.lease.signals import LEASES_LOST, SETTLE_REFUSED, LeaseLoss
from jobqueue.store.pool import Connection
from tests.support.leases import SHORT, SLOW, expires_in, open_leases, take_at_last, take_one
from tests.support.postgres import Cluster, database_of
from tests.support.settling import settled
from tests.support.store import cut, path, status, submit, waits
from tests.support.waiting import eventually


@asynccontextmanager
async def no_new_settles(pg: Cluster, db: Connection, dsn: str) -> AsyncIterator[None]:
    """Cut the connection of settles, and let the database refuse every new one."""
    change = f'ALTER DATABASE "{database_of(dsn)}" ALLOW_CONNECTIONS'
    await pg.admin.execute(f"{change} false")
    try:
        assert await cut(db, "jq-settler") == 1
        yield
    finally:
        await pg.admin.execute(f"{change} true")


@asynccontextmanager
async def no_room_for(db: Connection, table: str) -> AsyncIterator[None]:
    """Let every new row of a table fail as it does where the disk is full."""
    await db.execute(
        """
        CREATE FUNCTION public.disk_is_full() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$
        """
    )
    await db.execute(
        f"CREATE TRIGGER full_disk BEFORE INSERT ON jobqueue.{table}"
        " EXECUTE FUNCTION public.disk_is_full()"
    )
    try:
        yield
    finally:
        await db.execute(f"DROP TRIGGER full_disk ON jobqueue.{table}")


async def stuck_over(leases: DirectLeases, trouble: str) -> None:
    async def stuck() -> bool:
        return trouble in str(leases._settler.trouble)

    await eventually(stuck, what="an outcome that is stuck")


async def test_while_an_outcome_waits_for_a_connection_nothing_is_claimed(
    pg: Cluster, database: str, db: Connection
) -> None:
    first, second = await submit(db, 2)
    refused: list[object] = []
    stop = SETTLE_REFUSED.subscribe(refused.append)
    async with open_leases(database, settings=SLOW) as leases:
        job = await take_one(leases)
        async with no_new_settles(pg, db, database):
            settling = asyncio.create_task(settled(leases, job, Completed(b"ok")))
            # The first try may meet the cut, the next ones the refusal.
            await stuck_over(leases, "accepting connections")
            with pytest.raises(Unavailable, match="not currently accepting connections"):
                await leases.claim(1, running=True)
            assert await status(db, second) == "PENDING"
            assert not settling.done()
        assert await settling
        assert await settled(leases, await take_one(leases), Completed())
    stop()
    assert refused == [], "no outcome was at fault"
    assert (await path(db, first))[-1] == "DONE:COMPLETED"


async def test_without_a_connection_for_settles_an_idle_worker_claims_nothing(
    pg: Cluster, database: str, db: Connection
) -> None:
    (job_id,) = await submit(db)
    async with open_leases(database, settings=SLOW) as leases:
        job = await take_one(leases)
        assert await settled(leases, job, Released())
        async with no_new_settles(pg, db, database):

            async def noticed() -> bool:
                connection = leases._settles._connection
                return connection is None or connection.is_closed()

            await eventually(noticed, what="the cut")
            with pytest.raises(Unavailable, match="not currently accepting connections"):
                await leases.claim(1, running=True)
            assert await status(db, job_id) == "PENDING"
        assert await settled(leases, await take_one(leases), Completed())


async def test_an_outcome_that_meets_a_full_disk_waits_for_room(
    database: str, db: Connection
) -> None:
    ids = await submit(db, 3)
    refused: list[object] = []
    stop = SETTLE_REFUSED.subscribe(refused.append)
    async with open_leases(database, settings=SLOW) as leases:
        jobs = await leases.claim(3, running=True)
        async with no_room_for(db, "finished"):
            ends = [asyncio.create_task(settled(leases, job, Completed(b"ok"))) for job in jobs]
            await stuck_over(leases, "no room left")
            with pytest.raises(Unavailable, match="no room left on its disk"):
                await leases.claim(1, running=True)
        assert all(await asyncio.gather(*ends))
    stop()
    assert refused == [], "no outcome was at fault"
    for job_id in ids:
        assert (await path(db, job_id))[-1] == "DONE:COMPLETED"


async def test_a_lease_whose_outcome_is_given_up_is_over(database: str, db: Connection) -> None:
    await submit(db, 3)  # one that a late claim took cannot be handed back meanwhile
    blocker = await asyncpg.connect(database)  # one of ours would be cut after 10 s
    async with open_leases(database, settings=SHORT) as leases, blocker.transaction():
        await blocker.execute("LOCK TABLE jobqueue.finished IN SHARE MODE")
        job = await take_at_last(leases)
        settling = asyncio.create_task(settled(leases, job, Completed()))
        await eventually(lambda: waits(db, "jq-settler"), what="the settle waits")
        assert not await settling
        assert await expires_in(db, job) < 1.5, "it was not renewed up to the end"
    await blocker.close()


async def test_a_completed_job_is_told_though_another_end_cannot_be_written(
    database: str, db: Connection
) -> None:
    done_id, failed_id = await submit(db, 2)
    async with open_leases(database, settings=SLOW) as leases:
        done, failed = await leases.claim(2, running=True)
        blocker = await asyncpg.connect(database)
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE jobqueue.scheduled IN SHARE MODE")
            failing = asyncio.create_task(settled(leases, failed, Failed("boom")))
            assert await settled(leases, done, Completed())
            assert await status(db, done_id) == "DONE"
            assert not failing.done()
        assert await failing
        await blocker.close()
    assert (await path(db, failed_id))[-1] == "FAILED:HANDLER_FAILED"


async def test_a_start_that_comes_behind_its_own_release_is_no_loss(
    database: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(db)
    lost: list[LeaseLoss] = []
    stop = LEASES_LOST.subscribe(lost.append)
    async with open_leases(database, settings=SLOW) as leases:
        (job,) = await leases.claim(1, running=False)
        run, written, may_answer = leases._settles.run, asyncio.Event(), asyncio.Event()

        async def answer_late(work: Callable[[Connection], Awaitable[object]]) -> object:
            answer = await run(work)
            written.set()
            await may_answer.wait()
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(leases._settles, "run", answer_late)
            releasing = asyncio.create_task(settled(leases, job, Released()))
            await written.wait()
            assert await leases.start([job.lease]) == frozenset()
            may_answer.set()
            assert await releasing
    stop()
    assert lost == []
