"""What the processes of a family run, told through memory that they share."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jobqueue.domain.load import IDLE, Load
from jobqueue.worker.board import Board, LoadReport, Place
from jobqueue.worker.executor import Executor
from tests.support.recording_leases import leased
from tests.support.waiting import eventually

REPORTS = """
import sys
from jobqueue.domain.load import Load
from jobqueue.worker.board import Place
Place.taken_from(sys.argv[1]).report(Load(int(sys.argv[2]), 7.5))
"""


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board(3)
    yield made
    made.close()


def report(board: Board, number: int, jobs: int) -> int:
    """Report from another process; return its id."""
    argv = [sys.executable, "-c", REPORTS, board.place(number), str(jobs)]
    with subprocess.Popen(argv, pass_fds=(board.fd,)) as process:
        assert process.wait() == 0
        return process.pid


def test_a_board_on_which_nobody_wrote_is_idle(board: Board) -> None:
    assert board.load() == IDLE


def test_processes_are_added_up_and_forgotten_one_by_one(board: Board) -> None:
    first, last = report(board, 0, 2), report(board, 2, 3)
    assert board.load() == Load(5, 7.5)
    board.forget(first)
    assert board.load() == Load(3, 7.5)
    board.forget(-1)
    board.forget(last)
    assert board.load() == IDLE


def test_a_place_is_written_over(board: Board) -> None:
    place = Place.taken_from(board.place(1))
    place.report(Load(4, 1.0))
    place.report(Load(1, 2.0))
    assert board.load() == Load(1, 2.0)


async def test_a_process_reports_what_it_runs_and_that_it_runs_nothing(board: Board) -> None:
    loads = [Load(2, 3.0), IDLE]
    reporting = LoadReport(Place.taken_from(board.place(0)), lambda: loads[0])
    await reporting.start()
    for wanted in (Load(2, 3.0), IDLE):

        async def shown(wanted: Load = wanted) -> bool:
            return board.load() == wanted

        await eventually(shown, what=str(wanted))
        loads[0] = IDLE
    await reporting.stop(0.0)


async def test_the_load_of_a_worker_is_its_attempts_and_the_age_of_the_oldest(
    executor: Executor,
) -> None:
    assert executor.load == IDLE
    jobs = [leased("async-sleeps") for _ in range(2)]
    tasks = [asyncio.create_task(executor.execute(jobs[0]))]

    async def runs() -> bool:
        return executor.load.jobs == len(tasks)

    await eventually(runs, what="the first")
    since = executor.load.since
    tasks.append(asyncio.create_task(executor.execute(jobs[1])))
    await eventually(runs, what="the second")
    assert executor.load == Load(2, since)
    executor.release_all(hurry=True)
    await asyncio.gather(*tasks)
    assert executor.load == IDLE
