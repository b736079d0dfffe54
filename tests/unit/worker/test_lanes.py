"""Which jobs share a task, and which must not (R-4.10)."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from jobqueue.domain.lease import LeasedJob
from jobqueue.worker import lanes as module
from jobqueue.worker.lanes import Lanes
from tests.support.recording_leases import leased
from tests.support.waiting import eventually

MARK: ContextVar[str] = ContextVar("mark", default="untouched")

Behave = Callable[[], Coroutine[Any, Any, None]]


class Recorder:
    """Runs jobs that do what ``behave`` does; keeps in which task each ran, and what it saw."""

    def __init__(self, behave: Behave) -> None:
        self.behave = behave
        self.tasks: list[asyncio.Task[Any] | None] = []
        self.marks: list[str] = []
        self.order: list[LeasedJob] = []

    async def run(self, job: LeasedJob, task: asyncio.Task[None]) -> None:
        assert task is asyncio.current_task()
        self.order.append(job)
        self.tasks.append(asyncio.current_task())
        self.marks.append(MARK.get())
        await self.behave()


async def ran(behave: Behave, count: int = 3) -> Recorder:
    recorder = Recorder(behave)
    jobs = [leased() for _ in range(count)]
    Lanes(recorder.run).start(jobs)

    async def all_begun() -> bool:
        return len(recorder.order) == count

    await eventually(all_begun, what="all jobs have begun")
    assert recorder.order == jobs
    return recorder


async def at_once() -> None:
    """Wait for nothing."""


async def marks() -> None:
    MARK.set("touched")


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def test_jobs_that_do_not_wait_share_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_S", 60.0)  # however slow this machine is
    recorder = await ran(at_once, count=100)
    assert len(set(recorder.tasks)) == 1


async def test_a_job_that_waits_has_its_task_for_itself_and_holds_up_nobody() -> None:
    go = asyncio.Event()

    async def waits() -> None:
        await go.wait()

    recorder = await ran(waits, count=50)
    assert len(set(recorder.tasks)) == 50
    go.set()


async def test_what_a_handler_does_to_its_context_is_not_seen_by_the_next() -> None:
    recorder = await ran(marks)
    assert recorder.marks == ["untouched"] * 3


async def test_a_cancelled_task_runs_no_other_job() -> None:
    recorder = await ran(cancels_itself)
    assert len(set(recorder.tasks)) == 3


class Incomparable:
    """What cannot be compared, like an array of numpy."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("no")

    __hash__ = object.__hash__


async def test_a_variable_that_cannot_be_compared_stops_no_lane() -> None:
    mark: ContextVar[object] = ContextVar("incomparable")
    mark.set(Incomparable())

    async def replaces() -> None:
        mark.set(Incomparable())

    recorder = await ran(replaces)
    assert len(recorder.order) == 3


async def test_the_loop_turns_between_jobs_that_take_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SLICE_S", 0.0)
    turns: list[int] = []
    recorder = Recorder(at_once)

    def turn() -> None:
        turns.append(len(recorder.order))
        if len(recorder.order) < 3:
            asyncio.get_running_loop().call_soon(turn)

    Lanes(recorder.run).start([leased() for _ in range(3)])
    turn()

    async def all_begun() -> bool:
        return turns[-1] == 3

    await eventually(all_begun, what="all jobs have begun")
    assert {0, 1, 2, 3} <= set(turns)


async def test_a_job_that_is_taken_back_does_not_run() -> None:
    recorder = Recorder(at_once)
    lanes = Lanes(recorder.run)
    jobs = [leased() for _ in range(3)]
    lanes.start(jobs)
    assert lanes.take_back(jobs[1].lease) is jobs[1]
    assert lanes.take_back(jobs[1].lease) is None
    assert lanes.take_all_back() == [jobs[0], jobs[2]]
    lanes.start([jobs[1]])

    async def one_ran() -> bool:
        return bool(recorder.order)

    await eventually(one_ran, what="a job has run")
    assert recorder.order == [jobs[1]]


async def test_a_lane_that_is_cancelled_before_its_first_job_leaves_none_behind() -> None:
    recorder = Recorder(at_once)
    lanes = Lanes(recorder.run)
    lanes.start([leased() for _ in range(3)])
    await asyncio.sleep(0)  # it waits for its turn
    assert not recorder.order
    for task in tuple(lanes._tasks):
        task.cancel()

    async def all_begun() -> bool:
        return len(recorder.order) == 3

    await eventually(all_begun, what="all jobs have begun")
