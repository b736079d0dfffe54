"""The loop that keeps the annotation in step, by a clock that a test moves."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from jobqueue.domain.load import IDLE, Load
from jobqueue.kubernetes.api import PodApi
from jobqueue.kubernetes.deletion_cost import DeletionCost
from jobqueue.kubernetes.pace import FIRST_WAIT_S, LAST_WAIT_S
from jobqueue.kubernetes.signals import (
    COST_UNWRITTEN,
    COST_WRITTEN,
    CostUnwritten,
    CostWritten,
)
from jobqueue.runtime.clock import ManualClock
from tests.support.kubernetes_api import Behaviour, Cluster, breaks, hangs, refuses, sends
from tests.support.waiting import HANG_S

INTERVAL_S = 30.0


@dataclass
class Pod:
    """What runs, and what was told."""

    load: Load = IDLE
    ending: bool = False
    clock: ManualClock = field(default_factory=ManualClock)
    written: list[CostWritten] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)

    def keeper(self, kube: Cluster, timeout_s: float = 60.0) -> DeletionCost:
        api = PodApi(kube.pod(), timeout_s=timeout_s)
        return DeletionCost(
            api, lambda: self.load, lambda: self.ending, interval_s=INTERVAL_S, clock=self.clock
        )

    def note(self, news: CostUnwritten) -> None:
        self.causes.append(news.cause)


@pytest.fixture
def pod() -> Iterator[Pod]:
    made = Pod()
    ends = (COST_WRITTEN.subscribe(made.written.append), COST_UNWRITTEN.subscribe(made.note))
    yield made
    for end in ends:
        end()


async def test_what_an_earlier_container_left_is_put_right_at_the_start(
    kube: Cluster, pod: Pod
) -> None:
    await pod.keeper(kube).turn()
    assert kube.costs == ["0"]
    assert pod.written == [CostWritten(0, known=False)]


async def test_the_annotation_follows_what_runs(kube: Cluster, pod: Pod) -> None:
    keeper = pod.keeper(kube)
    await keeper.turn()
    pod.clock.advance(1)
    pod.load = Load(3, pod.clock.monotonic())
    await keeper.turn()
    pod.clock.advance(120)
    await keeper.turn()
    pod.load = IDLE
    for _ in range(40):
        pod.clock.advance(1)
        await keeper.turn()
    assert kube.costs == ["0", "4", "2004", "0"]
    assert [news.known for news in pod.written] == [False, True, True, True]


async def test_nothing_is_sent_while_nothing_changes(kube: Cluster, pod: Pod) -> None:
    keeper = pod.keeper(kube)
    for _ in range(500):
        await keeper.turn()
        pod.clock.advance(1)
    assert len(kube.requests) == 1


async def test_a_worker_that_ends_sends_nothing_more(kube: Cluster, pod: Pod) -> None:
    keeper = pod.keeper(kube)
    pod.ending = True
    await keeper.turn()
    assert kube.requests == []


@pytest.mark.parametrize(
    "behaviour",
    [
        refuses(403, "forbidden"), refuses(404, "gone"), refuses(409, "conflict"),
        refuses(500, "broken"), refuses(401, "expired"), breaks, hangs, sends(b"garbage\r\n"),
    ],
    ids=["403", "404", "409", "500", "401", "cut", "hangs", "garbage"],
)  # fmt: skip
async def test_every_failure_is_told_and_tried_again_and_no_fault_of_the_loop(
    kube: Cluster, pod: Pod, behaviour: Behaviour
) -> None:
    keeper = pod.keeper(kube, timeout_s=2.0 if behaviour is hangs else 60.0)
    kube.behaviour = behaviour
    await keeper.turn()
    assert len(pod.causes) == 1
    pod.clock.advance(FIRST_WAIT_S - 0.1)
    await keeper.turn()
    assert len(pod.causes) == 1
    kube.behaviour = None
    keeper._api._timeout_s = 60.0
    pod.clock.advance(FIRST_WAIT_S)
    await keeper.turn()
    assert kube.costs == ["0"]
    assert pod.written == [CostWritten(0, known=False)]


async def test_the_api_server_is_left_alone_for_as_long_as_it_asks(kube: Cluster, pod: Pod) -> None:
    keeper = pod.keeper(kube)
    kube.behaviour = refuses(429, "too many", Retry_After="120")
    await keeper.turn()
    pod.clock.advance(119)
    await keeper.turn()
    assert len(kube.requests) == 1
    pod.clock.advance(120 / 2 + 1)
    await keeper.turn()
    assert len(kube.requests) == 2


async def test_an_outage_of_hours_is_asked_about_every_few_minutes(kube: Cluster, pod: Pod) -> None:
    keeper = pod.keeper(kube)
    kube.behaviour = refuses(500, "broken")
    for _ in range(3600):
        await keeper.turn()
        pod.clock.advance(1)
    assert 3600 / (1.5 * LAST_WAIT_S) < len(kube.requests) < 25


async def test_it_ends_at_once_while_the_api_server_hangs(kube: Cluster, pod: Pod) -> None:
    kube.behaviour = hangs
    keeper = pod.keeper(kube, timeout_s=600)
    await keeper.start()
    await kube.is_asked(1)
    async with asyncio.timeout(HANG_S):
        await keeper.stop(0.0)
    assert pod.causes == []
