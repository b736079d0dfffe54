"""A worker from start to end, against recorded leases."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from jobqueue.domain.state import Reason
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.lease.interface import CancelRequested, CommandReceived, Forgotten, LeaseGone
from jobqueue.runtime.shutdown import ShutdownSignals
from jobqueue.worker.claiming import Room
from jobqueue.worker.executor import RunRules
from jobqueue.worker.registry import Registry
from jobqueue.worker.worker import (
    EXIT_DONE,
    EXIT_HURRIED,
    EXIT_UNFIT,
    Worker,
    WorkerOptions,
)
from tests.support.recording_leases import RecordingLeases, leased
from tests.support.waiting import HANG_S, eventually
from tests.unit.worker.test_handlers import appears, dead

FACTS = WorkerFacts("w-1", "host", 1, ("default",), (), 2, "direct", "0")


class Running:
    """One worker in a task."""

    def __init__(self, leases: RecordingLeases, registry: Registry) -> None:
        self.asked = ShutdownSignals()
        self.leases = leases
        self.options = WorkerOptions(
            Room(concurrency=2, prefetch=1), RunRules(kill_grace_s=0.5), shutdown_grace_s=30.0
        )
        self._registry = registry
        self.task: asyncio.Task[int] | None = None

    def start(self) -> None:
        worker = Worker(self.leases, self._registry, FACTS, self.options)
        self.task = asyncio.create_task(worker.run(self.asked))

    async def ended(self, within_s: float = HANG_S) -> int:
        assert self.task is not None
        return await asyncio.wait_for(self.task, within_s)

    async def claims(self) -> None:
        async def look() -> bool:
            return bool(self.leases.claims)

        await eventually(look, what="the first claim")


@pytest_asyncio.fixture
async def worker(leases: RecordingLeases, registry: Registry) -> AsyncIterator[Running]:
    running = Running(leases, registry)
    yield running
    running.asked.shutdown.set()
    running.asked.hurry.set()
    if running.task is not None:
        await running.ended()


async def test_a_shutdown_lets_running_jobs_finish(
    worker: Running, leases: RecordingLeases
) -> None:
    job = leased("shell", b'{"command": "sleep 0.5; echo done"}')
    leases.queue = [job]
    worker.start()
    await worker.claims()
    worker.asked.shutdown.set()
    assert await worker.ended() == EXIT_DONE
    assert leases.settled[job.lease].result == b"done\n"
    assert leases.calls[-1] == "close"


async def test_a_shutdown_hands_unstarted_jobs_back_at_once(
    worker: Running, leases: RecordingLeases, tmp_path: Path
) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    running = [leased("sleeps", str(path).encode()) for path in paths]
    waiting = leased("echo")
    worker.options = replace(worker.options, shutdown_grace_s=600.0)
    leases.queue = [*running, waiting]
    worker.start()
    for path in paths:
        await appears(path)
    worker.asked.shutdown.set()
    settlement = await leases.settlement(waiting)
    assert (settlement.reason, settlement.detail) == (Reason.RELEASED, "handed back unstarted")
    assert running[0].lease not in leases.settled


async def test_what_runs_at_the_end_of_the_grace_is_ended_and_handed_back(
    worker: Running, leases: RecordingLeases, tmp_path: Path
) -> None:
    worker.options = WorkerOptions(Room(), RunRules(kill_grace_s=0.5), shutdown_grace_s=0.1)
    job = leased("ignores-term", str(tmp_path / "pid").encode())
    leases.queue = [job]
    worker.start()
    pid = await appears(tmp_path / "pid")
    worker.asked.shutdown.set()
    assert await worker.ended() == EXIT_DONE
    assert leases.settled[job.lease].reason is Reason.RELEASED
    assert dead(pid)


async def test_a_worker_that_cannot_hand_back_what_it_ran_exits_non_zero(
    worker: Running, leases: RecordingLeases, tmp_path: Path
) -> None:
    worker.options = WorkerOptions(Room(), RunRules(), shutdown_grace_s=0.1)
    job = leased("sleeps", str(tmp_path / "pid").encode())
    leases.queue = [job]
    worker.start()
    await appears(tmp_path / "pid")
    leases.gone.add(job.lease)
    worker.asked.shutdown.set()
    assert await worker.ended() == EXIT_HURRIED
    assert job.lease not in leases.settled


async def test_a_second_signal_releases_at_once_and_exits_non_zero(
    worker: Running, leases: RecordingLeases, tmp_path: Path
) -> None:
    worker.options = WorkerOptions(Room(), RunRules(kill_grace_s=600.0), shutdown_grace_s=600.0)
    job = leased("ignores-term", str(tmp_path / "pid").encode())
    leases.queue = [job]
    worker.start()
    pid = await appears(tmp_path / "pid")
    worker.asked.shutdown.set()
    worker.asked.hurry.set()
    assert await worker.ended() == EXIT_HURRIED
    assert leases.settled[job.lease].reason is Reason.RELEASED
    assert dead(pid)


async def test_a_signal_while_the_database_is_away_ends_the_start(
    worker: Running, leases: RecordingLeases
) -> None:
    leases.outage = True
    worker.start()

    async def tried() -> bool:
        return "open" in leases.calls

    await eventually(tried, what="the first try")
    worker.asked.shutdown.set()
    assert await worker.ended() == EXIT_DONE


async def test_a_worker_waits_for_its_database(worker: Running, leases: RecordingLeases) -> None:
    leases.outage = True
    worker.start()

    async def tried_twice() -> bool:
        return leases.calls.count("open") >= 2

    await eventually(tried_twice, what="the second try")
    leases.outage = False
    await worker.claims()
    assert leases.facts == FACTS


async def test_a_drained_worker_finishes_claims_nothing_and_stays(
    worker: Running, leases: RecordingLeases
) -> None:
    worker.start()
    await worker.claims()
    worker.asked.drain.set()

    async def shown() -> bool:
        return "draining" in leases.calls

    await eventually(shown, what="the draining worker")
    claims = len(leases.claims)
    beats = leases.beats

    async def beaten() -> bool:
        return leases.beats > beats + 1

    await eventually(beaten, what="more turns")
    assert len(leases.claims) == claims
    assert worker.task is not None
    assert not worker.task.done()


@pytest.mark.parametrize("command", [WorkerCommand.DRAIN, WorkerCommand.SHUTDOWN])
async def test_an_operators_command_works_like_the_signal(
    worker: Running, leases: RecordingLeases, command: WorkerCommand
) -> None:
    worker.start()
    await worker.claims()
    leases.tell(CommandReceived(command))
    if command is WorkerCommand.SHUTDOWN:
        assert await worker.ended() == EXIT_DONE
    else:
        await asyncio.wait_for(worker.asked.drain.wait(), HANG_S)


async def test_a_worker_whose_registration_was_lost_ends_and_says_so_with_its_exit_code(
    worker: Running, leases: RecordingLeases
) -> None:
    worker.start()
    await worker.claims()
    leases.tell(Forgotten())
    assert await worker.ended() == EXIT_HURRIED


async def test_a_cancel_request_reaches_the_running_job(
    worker: Running, leases: RecordingLeases, tmp_path: Path
) -> None:
    job = leased("sleeps", str(tmp_path / "pid").encode())
    leases.queue = [job]
    worker.start()
    await appears(tmp_path / "pid")
    leases.tell(CancelRequested(job.lease))
    assert (await leases.settlement(job)).dead_reason is Reason.CANCELLED


async def test_a_lost_lease_frees_its_slot(
    worker: Running, leases: RecordingLeases, tmp_path: Path
) -> None:
    worker.options = WorkerOptions(Room(concurrency=1), RunRules(kill_grace_s=0.5))
    lost = leased("ignores-term", str(tmp_path / "pid").encode())
    other = leased("echo", b"next")
    leases.queue = [lost, other]
    worker.start()
    pid = await appears(tmp_path / "pid")
    leases.tell(LeaseGone(lost.lease))
    assert (await leases.settlement(other)).result == b"next"
    assert lost.lease not in leases.settled
    assert dead(pid)


@pytest.mark.usefixtures("_release", "_no_patience")
async def test_a_stuck_handler_ends_the_worker_and_the_rest_goes_back(
    worker: Running, leases: RecordingLeases, tmp_path: Path
) -> None:
    stuck = leased("thread-deaf", timeout_s=0.3)
    other = leased("sleeps", str(tmp_path / "pid").encode())
    leases.queue = [stuck, other]
    worker.start()
    assert await worker.ended() == EXIT_UNFIT
    assert stuck.lease not in leases.settled
    assert leases.settled[other.lease].reason is Reason.RELEASED


async def test_hanging_handlers_give_their_slots_back(
    worker: Running, leases: RecordingLeases, tmp_path: Path
) -> None:
    hanging = [
        leased("ignores-term", str(tmp_path / str(i)).encode(), timeout_s=0.2) for i in range(3)
    ]
    good = [leased("echo", str(i).encode()) for i in range(10)]
    leases.queue = [*hanging, *good]
    worker.start()
    for job in good:
        assert (await leases.settlement(job)).reason is Reason.COMPLETED
    for job in hanging:
        assert (await leases.settlement(job)).reason is Reason.TIMED_OUT
