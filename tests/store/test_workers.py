"""The registry of workers: display and commands, never a reason to take a job back."""

import pytest

from jobqueue.domain.worker import Worker, WorkerCommand, WorkerStatus
from jobqueue.store.pool import Connection
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
from tests.support.store import add_queue, claim_one, submit
from tests.support.workers import facts


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
    assert (worker.status, worker.command, worker.running) == ("ACTIVE", "NONE", 2)


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
    assert await prune_worker_names(db, 60.0) == 0
    await db.execute("UPDATE jobqueue.worker_names SET seen_at = seen_at - interval '1 h'")
    assert await prune_worker_names(db, 60.0) == 1
    names = await db.fetch("SELECT worker_id FROM jobqueue.worker_names ORDER BY 1")
    assert [row["worker_id"] for row in names] == [registered, holding]


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
