"""The keeper process: what starves, kills or cuts off whom, and what becomes of the leases."""

import asyncio
import ctypes
import os
import signal
import threading
import time
from dataclasses import replace
from itertools import pairwise

import asyncpg
import pytest

from jobqueue.domain.lease import Lease
from jobqueue.domain.outcome import Completed, Postponed, Released
from jobqueue.domain.worker import WorkerCommand
from jobqueue.errors import DeadlineExceeded, Unavailable
from jobqueue.lease import holder
from jobqueue.lease.direct import DirectLeases
from jobqueue.lease.interface import CancelRequested, CommandReceived, LeaseGone
from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.signals import LEASES_LOST, SETTLE_REFUSED, LeaseLoss
from jobqueue.lease.takeover import Takeover, expired
from jobqueue.store.pool import Connection
from jobqueue.store.workers import command_worker
from tests.support.leases import (
    QUICK,
    SLOW,
    Heard,
    expires_in,
    is_renewed,
    open_leases,
    replace_keeper,
    take_one,
)
from tests.support.own_loop import OwnLoop
from tests.support.settling import settled
from tests.support.store import (
    claim,
    cut,
    expire_leases,
    path,
    settle,
    status,
    submit,
    waits,
)
from tests.support.waiting import eventually
from tests.support.workers import facts

NEVER = LeaseSettings(lease_s=3600.0, renew_interval_s=1000.0, heartbeat_interval_s=0.5)


def hold_the_interpreter(seconds: int) -> float:
    """Keep every thread of this process from running; return how long a ticking one stood still.

    PyDLL does not release the interpreter lock around the call, as a long regular expression
    does not.
    """
    ticks = [time.monotonic()]
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.01):
            ticks.append(time.monotonic())

    ticker = threading.Thread(target=tick)
    ticker.start()
    ctypes.PyDLL(None).sleep(seconds)
    done.set()
    ticker.join()
    ticks.append(time.monotonic())
    return max(b - a for a, b in pairwise(ticks))


async def test_a_handler_that_holds_the_interpreter_longer_than_a_lease_keeps_it(
    database: str, db: Connection
) -> None:
    (job_id,) = await submit(db)
    settings = replace(QUICK, lease_s=10.0)
    async with open_leases(database, settings=settings) as leases:
        job = await take_one(leases)
        still_s = hold_the_interpreter(12)
        assert still_s > settings.lease_s, "nothing in this process ran for longer than a lease"
        assert await expires_in(db, job) > 0
        assert (await Takeover(expired(), page_size=10, crash_limit=3).step(db)).taken == 0
        assert await settled(leases, job, Completed(b"ok"))
    assert (await path(db, job_id))[-1] == "DONE:COMPLETED"


async def test_a_killed_keeper_is_replaced_and_no_lease_is_lost(
    database: str, db: Connection
) -> None:
    await submit(db)
    async with open_leases(database) as leases:
        job = await take_one(leases)
        await replace_keeper(leases)
        await is_renewed(db, job)
        assert await settled(leases, job, Completed())


async def test_a_keeper_whose_connection_is_cut_renews_on_a_new_one(
    database: str, db: Connection
) -> None:
    await submit(db)
    async with open_leases(database) as leases:
        job = await take_one(leases)
        assert await cut(db, "jq-keeper") == 1
        await is_renewed(db, job)
        assert await settled(leases, job, Completed())


async def test_an_outcome_survives_the_cut_of_its_connection(database: str, db: Connection) -> None:
    (job_id,) = await submit(db)
    async with open_leases(database) as leases:
        job = await take_one(leases)
        blocker = await asyncpg.connect(database)
        async with blocker.transaction():
            await blocker.execute("SELECT FROM jobqueue.leases FOR UPDATE")
            settling = asyncio.create_task(settled(leases, job, Completed(b"ok")))
            await eventually(lambda: waits(db, "jq-settler"), what="the settle waits")
            assert await cut(db, "jq-settler") == 1
        await blocker.close()
        assert await settling
    assert (await path(db, job_id)).count("DONE:COMPLETED") == 1


async def test_jobs_of_a_claim_nobody_waits_for_go_back_uncharged(
    database: str, db: Connection
) -> None:
    (job_id,) = await submit(db)
    async with open_leases(database, settings=SLOW) as leases:
        blocker = await asyncpg.connect(database)
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE jobqueue.leases IN SHARE MODE")
            claiming = asyncio.create_task(leases.claim(1, running=True))
            await eventually(lambda: waits(db, "jq-worker"), what="the claim waits")
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming
        await blocker.close()

        async def came_back() -> bool:
            return await status(db, job_id) == "PENDING" and len(await path(db, job_id)) > 1

        await eventually(came_back, what="the job goes back")
    assert (await path(db, job_id))[-1] == "PENDING:RELEASED"


async def test_a_lease_that_nobody_knows_is_handed_back_uncharged(
    database: str, db: Connection
) -> None:
    known, unknown = await submit(db, 2)
    async with open_leases(database, settings=SLOW) as leases:
        held = await take_one(leases)
        # As if the answer to this claim had been lost on the wire.
        await claim(db, 1, worker=leases._worker)
        assert await status(db, unknown) == "RUNNING"
        leases._keeper.reconcile()

        async def came_back() -> bool:
            return await status(db, unknown) == "PENDING"

        await eventually(came_back, what="the unknown lease is released")
        assert await status(db, known) == "RUNNING", "the other one is held"
        assert await settled(leases, held, Completed())
    assert (await path(db, unknown))[-1] == "PENDING:RELEASED"


async def locked(dsn: str) -> asyncpg.Connection:
    """Hold all claims up."""
    blocker = await asyncpg.connect(dsn)
    await blocker.execute("BEGIN; LOCK TABLE jobqueue.leases IN SHARE MODE")
    return blocker


async def let_go_and_look(blocker: asyncpg.Connection, seconds: float) -> None:
    """Let claims through, and see for so long that no lease runs out."""
    await blocker.execute("COMMIT")
    until = time.monotonic() + seconds

    async def over() -> bool:
        left = await blocker.fetchval(
            "SELECT extract(epoch FROM min(expires_at) - clock_timestamp()) FROM jobqueue.leases"
        )
        assert left is None or left > 0
        return left is not None and time.monotonic() >= until

    await eventually(over, within_s=seconds + 10, what="the end of the stall")
    await blocker.close()


async def test_what_a_claim_brings_to_a_loop_that_stands_still_is_renewed_until_it_goes_on(
    database: str, db: Connection
) -> None:
    (job_id,) = await submit(db)
    settings = replace(SLOW, lease_s=15.0, renew_interval_s=3.0)
    other = OwnLoop()
    async with open_leases(database, settings=settings) as leases:
        blocker = other.do(locked(database))
        claiming = asyncio.create_task(leases.claim(1, running=True))
        await eventually(lambda: waits(db, "jq-worker"), what="the claim waits")
        leases.beat()
        other.do(let_go_and_look(blocker, settings.lease_s + 2))  # this loop stands still
        with pytest.raises(DeadlineExceeded):  # so long it did not look
            await claiming

        async def came_back() -> bool:
            leases.beat()
            return await status(db, job_id) == "PENDING"

        await eventually(came_back, within_s=45.0, what="the lease that it disowns is released")
    other.end()
    assert (await path(db, job_id))[-1] == "PENDING:RELEASED"


async def test_a_cancel_is_heard_long_before_the_next_renewal(
    database: str, db: Connection
) -> None:
    await submit(db)
    async with open_leases(database, settings=NEVER) as leases:
        heard = Heard(leases)
        job = await take_one(leases)
        await db.execute("UPDATE jobqueue.leases SET cancel_requested = true")
        await heard.hears(CancelRequested(job.lease))
        assert heard.news.count(CancelRequested(job.lease)) == 1
        assert await settled(leases, job, Released())


async def test_a_lease_taken_away_is_heard_with_the_next_renewal(
    database: str, db: Connection
) -> None:
    await submit(db)
    lost: list[LeaseLoss] = []
    stop = LEASES_LOST.subscribe(lost.append)
    async with open_leases(database) as leases:
        heard = Heard(leases)
        job = await take_one(leases)
        await expire_leases(db)
        assert (await Takeover(expired(), page_size=10, crash_limit=3).step(db)).taken == 1
        await heard.hears(LeaseGone(job.lease))
        assert not await settled(leases, job, Completed(b"late"))
    stop()
    assert [loss.lease for loss in lost] == [job.lease]


async def test_a_job_past_its_deadline_is_not_renewed(database: str, db: Connection) -> None:
    await submit(db)
    settings = replace(QUICK, lease_s=8.0)
    async with open_leases(database, settings=settings) as leases:
        heard = Heard(leases)
        job = await take_one(leases)
        leases.set_deadline(job.lease, 0.1)
        await heard.hears(LeaseGone(job.lease))
        assert await expires_in(db, job) < settings.lease_s / 2, "it was not renewed up to the end"
        await expire_leases(db)
        assert (await Takeover(expired(), page_size=10, crash_limit=3).step(db)).taken == 1


async def test_an_operators_command_is_heard(database: str, db: Connection) -> None:
    async with open_leases(database, name="w-7") as leases:
        heard = Heard(leases)
        assert await command_worker(db, "w-7", WorkerCommand.DRAIN)
        await heard.hears(CommandReceived(WorkerCommand.DRAIN))
        await leases.set_draining()
        await eventually(
            lambda: db.fetchval("SELECT status = 'DRAINING' FROM jobqueue.workers"),
            what="shown as draining",
        )
    assert await db.fetchval("SELECT count(*) FROM jobqueue.workers") == 0


async def test_a_worker_whose_row_is_gone_registers_again_and_keeps_its_leases(
    database: str, db: Connection
) -> None:
    await submit(db)
    async with open_leases(database) as leases:
        job = await take_one(leases)
        assert await db.execute("DELETE FROM jobqueue.workers") == "DELETE 1"
        await eventually(
            lambda: db.fetchval("SELECT count(*) = 1 FROM jobqueue.workers"), what="a new row"
        )
        assert await settled(leases, job, Completed())


async def test_an_outcome_the_database_refuses_is_a_failure_that_says_why(
    database: str, db: Connection
) -> None:
    bad_id, good_id = await submit(db, 2)
    refused: list[object] = []
    stop = SETTLE_REFUSED.subscribe(refused.append)
    async with open_leases(database) as leases:
        bad, good = await leases.claim(2, running=True)
        refusing = settled(leases, bad, Postponed(0.0, "a \x00 in it"))
        settling = settled(leases, good, Completed(b"ok"))
        assert all(await asyncio.gather(refusing, settling))
    stop()
    assert len(refused) == 1
    assert (await path(db, bad_id))[-1] == "FAILED:HANDLER_FAILED"
    assert await status(db, good_id) == "DONE"


async def test_prefetched_jobs_are_started_or_forgotten(database: str, db: Connection) -> None:
    await submit(db, 2)
    async with open_leases(database) as leases:
        one, two = await leases.claim(2, running=False)
        assert not one.running
        assert await settle(db, two, Released(), worker=None) == "settled", "taken away meanwhile"
        assert await leases.start([one.lease, two.lease]) == {one.lease}
        assert await leases.start([one.lease]) == {one.lease}, "safe to repeat"
        assert not await settled(leases, two, Completed())
        assert await settled(leases, one, Completed())


async def test_a_keeper_outlives_the_signals_that_drain_its_worker(
    database: str, db: Connection
) -> None:
    await submit(db)
    async with open_leases(database) as leases:
        job = await take_one(leases)
        keeper = leases._keeper.pid
        assert keeper is not None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            os.kill(keeper, number)
        await is_renewed(db, job)
        assert leases._keeper.pid == keeper
        assert await settled(leases, job, Completed())


async def test_a_start_survives_the_cut_of_its_connection(database: str, db: Connection) -> None:
    await submit(db)
    async with open_leases(database) as leases:
        (job,) = await leases.claim(1, running=False)
        blocker = await asyncpg.connect(database)
        async with blocker.transaction():
            await blocker.execute("SELECT FROM jobqueue.leases FOR UPDATE")
            starting = asyncio.create_task(leases.start([job.lease]))
            await eventually(lambda: waits(db, "jq-worker"), what="the start waits")
            assert await cut(db, "jq-worker") == 1
        await blocker.close()
        assert await starting == {job.lease}
        assert await settled(leases, job, Completed())


async def test_a_claim_that_cannot_work_raises_unavailable_and_the_next_one_works(
    database: str, db: Connection
) -> None:
    (job_id,) = await submit(db)
    async with open_leases(database, settings=SLOW) as leases:
        assert await leases.claim(0, running=True) == []
        blocker = await asyncpg.connect(database)
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE jobqueue.leases IN SHARE MODE")
            claiming = asyncio.create_task(leases.claim(1, running=True))
            await eventually(lambda: waits(db, "jq-worker"), what="the claim waits")
            assert await cut(db, "jq-worker") == 1
            with pytest.raises(Unavailable):
                await claiming
        await blocker.close()
        job = await take_one(leases)
        assert job.job_id == job_id
        assert await settled(leases, job, Completed())


async def test_nothing_is_disowned_while_a_claim_may_bring_it(database: str) -> None:
    async with open_leases(database) as leases:
        stranger = Lease(1, 1)
        assert leases.disowned([stranger]) == [stranger]
        leases._flights.add(time.monotonic())
        assert leases.disowned([stranger]) == [stranger], "that claim is younger than the lease"
        leases._flights.add(time.monotonic() - 4.5)
        assert leases.disowned([stranger]) == ()
        leases._flights.clear()


async def test_a_database_out_of_reach_is_unavailable_and_leaves_no_keeper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holder, "OPEN_TIMEOUT_S", 0.5)
    leases = DirectLeases("postgresql://127.0.0.1:1/none", QUICK, ["q"], ["t"])
    with pytest.raises(Unavailable):
        await leases.open(facts())
    assert leases._keeper.pid is None
