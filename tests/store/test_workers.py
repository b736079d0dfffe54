"""The registry of workers: display and commands, never a reason to take a job back."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from jobqueue.domain.outcome import Refused
from jobqueue.domain.worker import Worker, WorkerCommand, WorkerStatus
from jobqueue.store.jobs import delete_job
from jobqueue.store.pool import Connection, transaction
from jobqueue.store.upkeep import forget_kept_events, roll_stats
from jobqueue.store.workers import (
    beat_worker,
    command_worker,
    deregister_worker,
    list_workers,
    mark_offline_workers,
    prune_worker_names,
    prune_workers,
    register_worker,
)
from tests.store.conftest import Connect
from tests.support.store import WAITS, add_queue, claim_one, settle, submit
from tests.support.waiting import eventually
from tests.support.workers import facts

KEEP = "INSERT INTO jobqueue.job_events_kept SELECT * FROM jobqueue.job_events"


async def let_years_pass(db: Connection) -> None:
    """Let the names be seen before the oldest partition of events."""
    await db.execute("UPDATE jobqueue.worker_names SET seen_at = '2020-01-01'")


async def one(db: Connection) -> Worker:
    (worker,) = await list_workers(db)
    return worker


async def silence(db: Connection, seconds: float) -> None:
    await db.execute(
        "UPDATE jobqueue.workers SET last_beat_at = last_beat_at - make_interval(secs => $1)",
        seconds,
    )


async def test_a_registered_worker_shows_its_facts_and_what_it_holds(db: Connection) -> None:
    await add_queue(db)
    number = await register_worker(db, facts())
    await submit(db, 2)
    await claim_one(db, worker=number)
    await claim_one(db, worker=number, running=False)
    worker = await one(db)
    assert worker.facts == facts()
    assert (worker.status, worker.running) == ("ACTIVE", 2)


async def test_a_worker_keeps_its_number_through_its_lives(db: Connection) -> None:
    number = await register_worker(db, facts())
    await deregister_worker(db, number)
    assert await list_workers(db) == []
    assert await beat_worker(db, number) is None
    assert await register_worker(db, facts(pid=2)) == number
    assert (await one(db)).facts.pid == 2


async def test_a_worker_that_goes_leaves_the_others_as_they_are(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 3)
    first, *others = [await register_worker(db, facts(f"w-{n}")) for n in range(3)]
    for number in (first, *others):
        await claim_one(db, worker=number)
    before = [worker for worker in await list_workers(db) if worker.facts.worker_id != "w-0"]
    await deregister_worker(db, first)
    assert await list_workers(db) == before
    assert [(worker.status, worker.running) for worker in before] == [("ACTIVE", 1)] * 2
    assert [await beat_worker(db, n) for n in others] == [WorkerCommand.NONE] * 2


async def test_a_new_life_does_not_hear_what_was_asked_of_a_crashed_one(db: Connection) -> None:
    number = await register_worker(db, facts())
    await command_worker(db, "w-1", WorkerCommand.SHUTDOWN)
    before = await one(db)
    await register_worker(db, facts(pid=2))
    assert await beat_worker(db, number) is WorkerCommand.NONE
    after = await one(db)
    assert after.started_at > before.started_at
    assert after.status is WorkerStatus.ACTIVE


@pytest.mark.parametrize("command", [WorkerCommand.DRAIN, WorkerCommand.SHUTDOWN])
async def test_a_worker_hears_a_command_with_its_beat(
    db: Connection, command: WorkerCommand
) -> None:
    number = await register_worker(db, facts())
    assert await beat_worker(db, number) is WorkerCommand.NONE
    assert await command_worker(db, "w-1", command)
    assert (await one(db)).status is WorkerStatus.ACTIVE  # until it hears, it claims
    assert await beat_worker(db, number) is command
    assert (await one(db)).status is WorkerStatus.DRAINING
    assert not await command_worker(db, "w-2", command)


async def test_a_shutdown_is_never_weakened_to_a_drain(db: Connection) -> None:
    number = await register_worker(db, facts())
    await command_worker(db, "w-1", WorkerCommand.SHUTDOWN)
    await command_worker(db, "w-1", WorkerCommand.DRAIN)
    assert await beat_worker(db, number) is WorkerCommand.SHUTDOWN


async def test_a_silent_worker_is_shown_offline_until_it_beats_again(db: Connection) -> None:
    number = await register_worker(db, facts())
    assert await mark_offline_workers(db, 30.0) == 0
    await silence(db, 60.0)
    assert await mark_offline_workers(db, 30.0) == 1
    assert await mark_offline_workers(db, 30.0) == 0
    assert (await one(db)).status is WorkerStatus.OFFLINE
    await beat_worker(db, number)
    assert (await one(db)).status is WorkerStatus.ACTIVE
    await beat_worker(db, number, draining=True)
    assert (await one(db)).status is WorkerStatus.DRAINING


async def test_only_workers_long_offline_are_removed(db: Connection) -> None:
    await register_worker(db, facts())
    await silence(db, 90_000.0)
    assert await prune_workers(db) == 0
    await mark_offline_workers(db, 30.0)
    assert await prune_workers(db, 100_000.0) == 0
    assert await prune_workers(db) == 1


async def test_of_very_many_workers_offline_those_silent_longest_are_removed(
    db: Connection,
) -> None:
    for name in ("first", "second", "third"):
        await silence(db, 60.0)
        await register_worker(db, facts(name))
    await silence(db, 60.0)
    await register_worker(db, facts("alive"))
    await mark_offline_workers(db, 30.0)
    assert await prune_workers(db, keep=2) == 1
    assert [worker.facts.worker_id for worker in await list_workers(db)] == [
        "alive",
        "second",
        "third",
    ]


async def test_a_name_is_forgotten_when_nothing_can_mention_it(db: Connection) -> None:
    await add_queue(db)
    registered = await register_worker(db, facts("registered"))
    holding = await register_worker(db, facts("holding"))
    gone = await register_worker(db, facts("gone"))
    await submit(db)
    await claim_one(db, worker=holding)
    for number in (holding, gone):
        await deregister_worker(db, number)
    assert await prune_worker_names(db) == 0
    await let_years_pass(db)
    assert await prune_worker_names(db) == 1
    names = await db.fetch("SELECT worker_id FROM jobqueue.worker_names ORDER BY 1")
    assert [row["worker_id"] for row in names] == [registered, holding]


async def silent_for_long(db: Connection, _: int) -> None:
    await silence(db, 90_000.0)
    await mark_offline_workers(db, 30.0)
    assert await prune_workers(db) == 1


@pytest.mark.parametrize("end", [deregister_worker, silent_for_long])
async def test_a_worker_that_ran_for_years_keeps_its_name_when_it_ends(
    db: Connection, end: Callable[[Connection, int], Awaitable[None]]
) -> None:
    await add_queue(db)
    number = await register_worker(db, facts())
    await let_years_pass(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db, worker=number))
    await end(db, number)
    await delete_job(db, job_id)
    assert await list_workers(db) == []
    assert await prune_worker_names(db) == 0
    named = await db.fetch("SELECT DISTINCT worker_id FROM jobqueue.job_event_log ORDER BY 1")
    assert [row["worker_id"] for row in named] == ["w-1", None]


async def test_a_name_stays_while_the_partition_of_its_last_events_does_and_a_day_more(
    db: Connection,
) -> None:
    await register_worker(db, facts())
    await db.execute("DELETE FROM jobqueue.workers")
    await db.execute("SELECT jobqueue.create_event_partition('2020-01-06')")
    forgotten = []
    for seen in ("2020-01-08Z", "2020-01-05 12:00Z", "2020-01-04 12:00Z"):
        await db.execute(f"UPDATE jobqueue.worker_names SET seen_at = '{seen}'")
        forgotten.append(await prune_worker_names(db))
    assert forgotten == [0, 0, 1]


async def test_a_name_stays_while_an_outcome_or_a_kept_event_has_it(db: Connection) -> None:
    await add_queue(db)
    number = await register_worker(db, facts())
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db, worker=number), Refused("never"))
    await deregister_worker(db, number)
    await let_years_pass(db)
    assert await prune_worker_names(db) == 0, "the outcome has it"
    assert await db.fetchval("SELECT seen_at > '2021-01-01' FROM jobqueue.worker_names")
    await db.execute(KEEP)
    await delete_job(db, job_id)
    await let_years_pass(db)
    assert await prune_worker_names(db) == 0, "kept events have it"
    await roll_stats(db)
    await db.execute("UPDATE jobqueue.event_cursors SET since = now()")
    assert await forget_kept_events(db) > 0
    await let_years_pass(db)
    assert await prune_worker_names(db) == 1


async def test_a_process_that_was_replaced_is_told_to_yield_and_removes_nobody(
    db: Connection,
) -> None:
    old, new = facts(pid=1), facts(pid=2)
    number = await register_worker(db, old)
    assert await beat_worker(db, number, facts=old) is WorkerCommand.NONE
    await register_worker(db, new)
    assert await beat_worker(db, number, draining=True, facts=old) is WorkerCommand.YIELD
    assert (await one(db)).status is WorkerStatus.ACTIVE
    await deregister_worker(db, number, old)
    assert await beat_worker(db, number, facts=new) is WorkerCommand.NONE
    await deregister_worker(db, number, new)
    assert await beat_worker(db, number, facts=new) is None


async def test_a_beat_that_meets_the_removal_of_its_row_is_told_to_register(
    db: Connection, another: Connect
) -> None:
    number = await register_worker(db, facts())
    assert await beats_behind(db, another, number, deregister_worker(db, number)) is None


async def test_a_beat_that_meets_the_registration_of_another_process_is_told_to_yield(
    db: Connection, another: Connect
) -> None:
    number = await register_worker(db, facts(pid=1))
    registration = register_worker(db, facts(pid=2))
    assert await beats_behind(db, another, number, registration) is WorkerCommand.YIELD
    assert (await one(db)).facts.pid == 2


async def test_a_beat_that_meets_a_command_hears_it(db: Connection, another: Connect) -> None:
    number = await register_worker(db, facts())
    command = command_worker(db, "w-1", WorkerCommand.DRAIN)
    assert await beats_behind(db, another, number, command) is WorkerCommand.DRAIN
    assert (await one(db)).status is WorkerStatus.DRAINING


async def beats_behind(
    db: Connection, another: Connect, number: int, change: Awaitable[object]
) -> WorkerCommand | None:
    """Beat as the process 1 while ``change`` on ``db`` is not committed, and wait for it."""
    other, watcher = await another(), await another()
    async with transaction(db):
        await change
        beating = asyncio.create_task(beat_worker(other, number, facts=facts(pid=1)))
        blocker = await db.fetchval("SELECT pg_backend_pid()")
        await eventually(lambda: watcher.fetchval(WAITS, blocker), what="a beat that waits")
    return await beating
