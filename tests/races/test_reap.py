"""The reaper against everybody else: whoever loses the race must do nothing."""

import asyncio

import pytest

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import LeaseExpired
from jobqueue.lease.signals import LEASES_EXPIRED, TAKEOVER_SKIPPED, TakeoverSkipped
from jobqueue.lease.takeover import Kind, Page, Takeover, expired, unstarted
from jobqueue.store.leases import lock_expired_leases, renew_leases, settle_leases
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import promote_jobs
from tests.store.conftest import Connect
from tests.support.store import (
    FAILURE,
    WORKER,
    add_queue,
    claim,
    claim_one,
    expire_leases,
    make_due,
    path,
    probes,
    settle,
    settlement,
    status,
    submit,
    waits_for_lock,
)
from tests.support.waiting import eventually

OTHER_WORKER = 2


def takeover(page_size: int = 100) -> Takeover:
    return Takeover(expired(), page_size=page_size, crash_limit=3)


async def sweep(takeover: Takeover, db: Connection) -> list[Page]:
    """Take steps until nothing is left."""
    pages = [await takeover.step(db)]
    while not pages[-1].complete:
        pages.append(await takeover.step(db))
    return pages


async def hold(db: Connection, job: LeasedJob) -> None:
    """Lock the row of a lease for the open transaction of ``db``."""
    held = await db.fetchval(
        "SELECT id FROM jobqueue.leases WHERE id = $1 FOR UPDATE", job.lease.job
    )
    assert held == job.lease.job


async def test_a_late_worker_cannot_touch_a_reclaimed_job(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    late = await claim_one(db)
    await expire_leases(db)
    assert (await takeover().step(db)).taken == 1
    await make_due(db)
    await promote_jobs(db, 10)
    fresh = await claim_one(db, worker=OTHER_WORKER)
    assert fresh.lease.token > late.lease.token

    assert await settle(db, late) == "lost"
    (renewal,) = await renew_leases(db, worker=WORKER, leases=[late.lease], lease_s=60.0)
    assert renewal.state == "lost"
    assert await status(db, job_id) == "RUNNING"
    assert await settle(db, fresh, worker=OTHER_WORKER) == "settled"
    assert (await path(db, job_id)).count("DONE:COMPLETED") == 1


async def test_a_failure_that_comes_after_a_younger_one_does_not_revive_a_dead_job(
    db: Connection,
) -> None:
    await add_queue(db, max_retries=1)
    (job_id,) = await submit(db)
    older = await claim_one(db)
    await expire_leases(db)
    assert (await takeover().step(db)).taken == 1
    await make_due(db)
    await promote_jobs(db, 10)
    younger = await claim_one(db, worker=OTHER_WORKER)
    assert await settle(db, younger, FAILURE, worker=OTHER_WORKER) == "settled"
    record = await path(db, job_id)
    assert record[-1] == "DEAD_LETTERED:RETRIES_EXHAUSTED"

    assert await settle(db, older, FAILURE) == "lost"
    assert await path(db, job_id) == record
    assert await claim(db, 1) == []


async def test_a_settle_in_flight_beats_the_reaper(db: Connection, another: Connect) -> None:
    await add_queue(db)
    ids = await submit(db, 5)
    jobs = await claim(db, 5)
    await expire_leases(db)
    holder, worker = await another(), await another()
    async with holder.transaction():
        await hold(holder, jobs[0])
        settling = asyncio.create_task(settle(worker, jobs[0]))
        await eventually(lambda: waits_for_lock(db, worker), what="the settle waits")
        assert (await takeover().step(db)).taken == 4, "one held row stops no other"
        assert (await takeover().step(db)).taken == 0, "the held row is never taken"
    assert await settling == "settled"
    assert (await takeover().step(db)).taken == 0
    assert await status(db, ids[0]) == "DONE"


async def test_the_reaper_in_flight_beats_a_settle(db: Connection, another: Connect) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db)
    await expire_leases(db)
    reaper, worker = await another(), await another()
    async with reaper.transaction():
        (found,) = await lock_expired_leases(reaper, after=0, limit=10)
        settling = asyncio.create_task(settle(worker, job))
        await eventually(lambda: waits_for_lock(db, worker), what="the settle waits")
        ended = settlement(job, LeaseExpired(running=True))
        await settle_leases(reaper, worker=None, settlements=[ended])
    assert found.lease == job.lease
    assert await settling == "lost"
    assert (await path(db, job_id))[-1] == "FAILED:LEASE_EXPIRED"


async def test_a_renewal_in_flight_saves_its_lease(db: Connection, another: Connect) -> None:
    await add_queue(db)
    await submit(db)
    job = await claim_one(db)
    await expire_leases(db)
    keeper = await another()
    async with keeper.transaction():
        (renewal,) = await renew_leases(keeper, worker=WORKER, leases=[job.lease], lease_s=60.0)
        assert renewal.state == "renewed"
        assert (await takeover().step(db)).taken == 0, "the row is locked"
    assert (await takeover().step(db)).taken == 0, "the lease is fresh"
    assert await settle(db, job) == "settled"


async def test_two_reapers_take_each_lease_once(db: Connection, another: Connect) -> None:
    await add_queue(db)
    ids = await submit(db, 60)
    await claim(db, 60)
    await expire_leases(db)
    sweeps = await asyncio.gather(
        *[sweep(takeover(page_size=7), await another()) for _ in range(3)]
    )
    assert sum(page.taken for pages in sweeps for page in pages) == 60
    for job_id in ids:
        assert (await path(db, job_id)).count("FAILED:LEASE_EXPIRED") == 1


async def test_ten_thousand_locked_rows_in_front_do_not_hide_the_one_behind_them(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await submit(db, 10_001)
    assert len(await claim(db, 10_001, where=probes(quota=10_001))) == 10_001
    await expire_leases(db)
    holder = await another()
    async with holder.transaction():
        held = await holder.fetch(
            "SELECT id FROM jobqueue.leases ORDER BY id LIMIT 10000 FOR UPDATE"
        )
        assert len(held) == 10_000
        assert sum(page.taken for page in await sweep(takeover(), db)) == 1
    (left,) = await db.fetch("SELECT count(*) AS n FROM jobqueue.leases")
    assert left["n"] == 10_000


async def test_jobs_that_hang_do_not_keep_their_place_before_those_behind_them(
    db: Connection,
) -> None:
    slots = 4
    await add_queue(db)
    hanging = await submit(db, 2 * slots)
    good = await submit(db, 100)
    for first in (0, slots):
        taken = await claim(db, slots)
        assert [job.job_id for job in taken] == hanging[first : first + slots]
        await expire_leases(db)
        assert (await takeover().step(db)).taken == slots
        await promote_jobs(db, 100)
    assert [job.job_id for job in await claim(db, 200)] == good


async def test_a_row_that_cannot_be_settled_is_passed_by_alone(bare: Connection) -> None:
    await add_queue(bare)
    await submit(bare, 20)
    jobs = sorted(await claim(bare, 20), key=lambda job: job.lease.job)
    await expire_leases(bare)
    bad = jobs[6].lease
    await bare.execute(
        # Not a state the product can make: the job is in two tables, so its move collides.
        "INSERT INTO jobqueue.scheduled (id, ready_at, due_at, queue_id, seq, attempt, reason, "
        "priority, retries, crashes, handbacks, unhandled, failed) "
        "SELECT id, ready_at, now() + interval '1 h', queue_id, seq, attempt, 'SUBMITTED', "
        "priority, 0, 0, 0, 0, false FROM jobqueue.leases WHERE id = $1",
        bad.job,
    )
    skipped: list[TakeoverSkipped] = []
    stop = TAKEOVER_SKIPPED.subscribe(skipped.append)
    sweeper = takeover(page_size=8)
    first, second = await sweep(sweeper, bare), await sweep(sweeper, bare)
    stop()
    assert sum(page.taken for page in first) == 19
    assert sum(page.taken for page in second) == 0
    assert [s.lease for s in skipped] == [bad, bad], "once in each sweep"
    left = await bare.fetch("SELECT id FROM jobqueue.leases")
    assert [r["id"] for r in left] == [bad.job]


@pytest.mark.parametrize(
    ("column", "kind"), [("expires_at", expired()), ("claimed_at", unstarted(timeout_s=60.0))]
)
async def test_a_lease_that_is_over_since_no_time_stops_no_other(
    bare: Connection, column: str, kind: Kind
) -> None:
    await add_queue(bare)
    await submit(bare, 2)
    odd, plain = await claim(bare, 2, running=False)
    change = f"UPDATE jobqueue.leases SET {column} = $2::text::timestamptz WHERE id = $1"
    await bare.execute(change, odd.lease.job, "-infinity")  # no time that the product stores
    await bare.execute(change, plain.lease.job, "2001-01-01")
    assert (await Takeover(kind, page_size=10, crash_limit=3).step(bare)).taken == 2


async def test_a_job_that_kills_its_workers_stops_at_the_crash_limit(db: Connection) -> None:
    await add_queue(db, max_retries=100)
    (job_id,) = await submit(db)
    counted: list[int] = []
    stop = LEASES_EXPIRED.subscribe(lambda event: counted.append(event.count))
    for _ in range(3):
        await claim_one(db)
        await expire_leases(db)
        assert (await takeover().step(db)).taken == 1
        await make_due(db)
        await promote_jobs(db, 10)
    stop()
    assert await status(db, job_id) == "DEAD_LETTERED"
    assert (await path(db, job_id))[-1] == "DEAD_LETTERED:CRASH_LIMIT"
    assert counted == [1, 1, 1]


async def test_a_prefetched_job_of_a_dead_worker_is_ready_at_once(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await claim_one(db, running=False)
    await expire_leases(db)
    page = await takeover().step(db)
    assert page.ready == {"q"}, "its workers are to be woken"
    assert await status(db, job_id) == "PENDING"


async def test_a_cancelled_job_of_a_dead_worker_does_not_run_again(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db)
    await db.execute(
        "UPDATE jobqueue.leases SET cancel_requested = true WHERE id = $1", job.lease.job
    )
    await expire_leases(db)
    await takeover().step(db)
    assert (await path(db, job_id))[-1] == "DEAD_LETTERED:CANCELLED"


async def test_a_job_not_started_in_time_is_taken_though_its_lease_is_renewed(
    db: Connection,
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db, running=False)
    late = Takeover(unstarted(timeout_s=0.0), page_size=10, crash_limit=3)
    assert (await takeover().step(db)).taken == 0, "its lease is not expired"
    assert (await late.step(db)).taken == 1
    assert await settle(db, job) == "lost"
    assert (await path(db, job_id))[-1] == "FAILED:ASSIGNMENT_TIMEOUT"
