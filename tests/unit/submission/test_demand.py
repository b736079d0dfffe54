"""What the queues ask of an autoscaler: by which figures, at which pace, and when not known."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jobqueue.domain.scaling import Load
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.errors import Unavailable
from jobqueue.runtime.clock import ManualClock
from jobqueue.store.signals import JOBS_MOVED, tell_moved
from jobqueue.submission.demand import NUDGE_GAP_S, PACE_S, Demand
from jobqueue.submission.figures import FIGURES, STALE_S, Figures, QueueFigures
from tests.support.waiting import eventually


class Watched:
    """A demand whose looks are counted and whose time is ours."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.asked = 0
        self.demand = Demand(self._look, self.clock)

    def _look(self) -> None:
        self.asked += 1

    def read(self, *queues: QueueFigures) -> None:
        FIGURES.emit(Figures(queues, 0, 0.0))

    def load(self, *names: str) -> Load:
        return self.demand.load(frozenset(names) if names else None)


@pytest_asyncio.fixture
async def watched() -> AsyncIterator[Watched]:
    watched = Watched()
    watched.demand.listen()
    yield watched
    watched.demand.close()


def queue(name: str = "a", *, ready: int = 0, running: int = 0, **more: object) -> QueueFigures:
    depth = dict.fromkeys(JobStatus, 0) | {JobStatus.RUNNING: running, JobStatus.PENDING: ready}
    age_s = 9.0 if ready else 0.0
    return QueueFigures(name, depth, ready, age_s, 0, **more)  # type: ignore[arg-type]


def submitted(name: str) -> None:
    tell_moved({name: 1}, JobStatus.PENDING, Reason.SUBMITTED)


async def test_nothing_is_told_before_the_first_look_and_after_an_outage(watched: Watched) -> None:
    for _ in range(2):
        with pytest.raises(Unavailable) as caught:
            watched.load()
        assert caught.value.reason == "NO_FIGURES"
        watched.read(queue())
        watched.clock.advance(STALE_S)
        assert not watched.load().claimable
        watched.clock.advance(0.1)


async def test_queues_are_added_up_and_those_that_are_not_there_ask_for_nothing(
    watched: Watched,
) -> None:
    watched.read(queue("a", ready=2), queue("b", ready=1, running=3), queue("c", ready=50))
    assert watched.load("a", "b", "not made yet") == Load(3, 3, 9.0)
    assert watched.load("not made yet") == Load()
    assert watched.load().claimable == 53


async def test_a_paused_queue_asks_for_the_jobs_that_still_run(watched: Watched) -> None:
    watched.read(queue(ready=5, running=2, paused=True))
    assert watched.load("a") == Load(0, 2, 0.0)


async def test_work_behind_a_limit_asks_for_nothing(watched: Watched) -> None:
    watched.read(queue(ready=50, running=4, max_running=4))
    assert watched.load("a") == Load(0, 4, 0.0)
    watched.read(queue(ready=50, running=3, max_running=4))
    assert watched.load("a") == Load(1, 3, 9.0, None)


async def test_the_pace_is_that_of_the_last_minute(watched: Watched) -> None:
    for finished in (100, 100, 130, 160):
        watched.read(queue(finished=finished))
        watched.clock.advance(PACE_S / 3)
    assert watched.load("a").finished_per_s == 60 / PACE_S
    for _ in range(4):
        watched.read(queue(finished=160))
        watched.clock.advance(PACE_S / 3)
    assert watched.load("a").finished_per_s == 0.0


async def test_the_pace_begins_anew_after_an_outage(watched: Watched) -> None:
    watched.read(queue(finished=0))
    watched.clock.advance(STALE_S + 1.0)
    watched.read(queue(ready=1, finished=1))
    assert watched.load().finished_per_s is None
    watched.clock.advance(2.0)
    watched.read(queue(ready=1, finished=21))
    assert watched.load().finished_per_s == pytest.approx(10.0)


async def test_the_pace_counts_a_new_queue_from_its_start_and_never_backwards(
    watched: Watched,
) -> None:
    watched.read(queue("a", finished=100))
    watched.clock.advance(10.0)
    watched.read(queue("a", finished=3), queue("new", finished=20))
    assert watched.load("new").finished_per_s == 2.0
    assert watched.load("a").finished_per_s == 0.0


async def test_a_job_for_an_idle_queue_has_the_figures_read_at_once(watched: Watched) -> None:
    watched.read(queue("a"), queue("busy", running=1), queue("full", ready=1))
    for name in ("busy", "full"):
        submitted(name)
    tell_moved({"a": 1}, JobStatus.DONE, Reason.COMPLETED)
    assert watched.demand._nudge is None
    submitted("a")
    submitted("made since then")

    async def asked() -> bool:
        return watched.asked == 1

    await eventually(asked, what="a look out of turn")


async def test_looks_out_of_turn_keep_a_distance(watched: Watched) -> None:
    watched.demand._look_now()
    submitted("a")
    nudge = watched.demand._nudge
    assert nudge is not None
    assert nudge.when() > asyncio.get_running_loop().time() + NUDGE_GAP_S / 2


async def test_who_waits_for_news_hears_of_looks_and_of_the_end(watched: Watched) -> None:
    taken = watched.demand.taken
    waiting = asyncio.create_task(watched.demand.news(taken, 60.0))
    await asyncio.sleep(0)
    watched.read(queue())
    await waiting
    await watched.demand.news(taken, 60.0)  # it has come already
    waiting = asyncio.create_task(watched.demand.news(watched.demand.taken, 60.0))
    await asyncio.sleep(0)
    watched.demand.close()
    await waiting
    await watched.demand.news(watched.demand.taken, 60.0)
    assert not watched.demand.is_open


async def test_who_is_closed_hears_nothing_more(watched: Watched) -> None:
    watched.demand.close()
    watched.read(queue())
    JOBS_MOVED.emit({})
    assert watched.demand.taken == 0
