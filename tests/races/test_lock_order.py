"""Who waits for rows while it holds others takes them in one order: so none waits in a circle."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import pytest

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Completed, Released
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.probes import ProbePlan
from jobqueue.store.leases import complete_leases, settle_leases, start_leases
from jobqueue.store.pool import Connection
from jobqueue.store.workers import (
    deregister_worker,
    list_workers,
    prune_workers,
    register_worker,
)
from tests.store.conftest import Connect
from tests.support.store import WORKER, add_queue, claim, settlement, submit, waits_for_lock
from tests.support.waiting import eventually
from tests.support.workers import facts

Way = Callable[[Connection, Sequence[LeasedJob]], Coroutine[None, None, None]]


async def complete(db: Connection, jobs: Sequence[LeasedJob]) -> None:
    done = {job.lease: Completed() for job in jobs}
    await complete_leases(db, worker=WORKER, done=done)


async def settle(db: Connection, jobs: Sequence[LeasedJob]) -> None:
    settlements = [settlement(job, Released()) for job in jobs]
    await settle_leases(db, worker=WORKER, settlements=settlements)


async def start(db: Connection, jobs: Sequence[LeasedJob]) -> None:
    leases = [job.lease for job in jobs]
    await start_leases(db, worker=WORKER, leases=leases, lease_s=60.0)


async def prune(db: Connection, _: int) -> None:
    assert await prune_workers(db) == 1


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("way", [complete, settle, start])
async def test_leases_are_locked_by_id_in_whatever_order_they_are_named(
    db: Connection, another: Connect, way: Way, *, backwards: bool
) -> None:
    await add_queue(db)
    await submit(db, 2)
    first, second = await claim(db, 2, running=way is not start)
    holder, worker = await another(), await another()
    async with holder.transaction():
        await holder.execute(
            "SELECT FROM jobqueue.leases WHERE id = $1 FOR UPDATE", first.lease.job
        )
        moving = asyncio.create_task(way(worker, [second, first] if backwards else [first, second]))
        await eventually(lambda: waits_for_lock(db, worker), what="it waits for the first")
        free = await db.fetch("SELECT id FROM jobqueue.leases FOR UPDATE SKIP LOCKED")
    await moving
    assert [row["id"] for row in free] == [second.lease.job]


@pytest.mark.parametrize("end", [deregister_worker, prune])
async def test_a_worker_that_ends_locks_its_name_before_its_row_as_one_that_begins_does(
    db: Connection, another: Connect, end: Callable[[Connection, int], Coroutine[None, None, None]]
) -> None:
    number = await register_worker(db, facts())
    await db.execute("UPDATE jobqueue.workers SET status = 'OFFLINE', last_beat_at = '2020-01-01'")
    holder, old, new = await another(), await another(), await another()
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.workers FOR UPDATE")
        ending = asyncio.create_task(end(old, number))
        await eventually(lambda: waits_for_lock(db, old), what="it waits for the row")
        beginning = asyncio.create_task(register_worker(new, facts(pid=2)))
        await eventually(lambda: waits_for_lock(db, new), what="it waits for the name")
    await ending
    assert await beginning == number
    (worker,) = await list_workers(db)
    assert worker.facts.pid == 2


async def test_limited_queues_are_locked_by_name_in_whatever_order_a_worker_has_them(
    db: Connection, another: Connect
) -> None:
    for name in "ab":
        await add_queue(db, name, max_running=1)
        await submit(db, queue=name)
    holder, worker = await another(), await another()
    claimer = Claimer(["b", "a"], ProbePlan(frozenset({"t"})), lease_s=60.0)
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.queues WHERE name = 'a' FOR UPDATE")
        claiming = asyncio.create_task(claimer.claim(worker, WORKER, 2, running=True))
        await eventually(lambda: waits_for_lock(db, worker), what="it waits for the first")
        free = await db.fetch("SELECT name FROM jobqueue.queues FOR UPDATE SKIP LOCKED")
    assert len(await claiming) == 2
    assert [row["name"] for row in free] == ["b"]
