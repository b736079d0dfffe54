"""What the scaler answers, and the life of its streams (R-10.2)."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
import pytest_asyncio

from jobqueue.domain.limits import Limits
from jobqueue.domain.state import JobStatus
from jobqueue.errors import ResourceExhausted
from jobqueue.externalscaler import externalscaler_pb2 as pb
from jobqueue.rpc import scaler_service as room
from jobqueue.rpc.scaler_service import LIFE_S, RESEND_S, ScalerService
from jobqueue.runtime.clock import ManualClock
from jobqueue.submission.demand import Demand
from jobqueue.submission.figures import FIGURES, STALE_S, Figures, QueueFigures

NOBODY: Any = None
"""Our methods do not look at their context."""


class Scaler:
    """The service over figures and a clock that are ours."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.demand = Demand(lambda: None, self.clock)
        self.service = ScalerService(self.demand, Limits(), self.clock)

    def read(self, ready: int = 0, age_s: float = 0.0) -> None:
        depth = dict.fromkeys(JobStatus, 0) | {JobStatus.PENDING: ready}
        FIGURES.emit(Figures([QueueFigures("q", depth, ready, age_s, 0)], 0, 0.0))

    def stream(self) -> Any:
        return aclosing(self.service.StreamIsActive(ref(), NOBODY))


@pytest_asyncio.fixture
async def scaler() -> AsyncIterator[Scaler]:
    scaler = Scaler()
    scaler.demand.listen()
    yield scaler
    scaler.demand.close()


def ref(**metadata: str) -> pb.ScaledObjectRef:
    return pb.ScaledObjectRef(scalerMetadata={"queues": "q", "targetPerReplica": "4"} | metadata)


async def test_both_numbers_are_set_and_the_whole_one_is_rounded_up(scaler: Scaler) -> None:
    scaler.read(ready=1, age_s=0.2)
    asked = ref(mode="age", targetPerReplica="1.5")
    (spec,) = (await scaler.service.GetMetricSpec(asked, NOBODY)).metricSpecs
    assert (spec.targetSize, spec.targetSizeFloat) == (2, 1.5)
    request = pb.GetMetricsRequest(scaledObjectRef=asked, metricName="of an earlier trigger")
    (metric,) = (await scaler.service.GetMetrics(request, NOBODY)).metricValues
    assert (metric.metricValue, metric.metricValueFloat) == (1, 0.2)
    assert metric.metricName == spec.metricName


async def test_a_stream_tells_a_change_and_says_nothing_twice_in_a_short_time(
    scaler: Scaler,
) -> None:
    scaler.read()
    async with scaler.stream() as states:
        assert not (await anext(states)).result
        scaler.read()
        scaler.read(ready=1)
        assert (await anext(states)).result


async def test_a_state_that_does_not_change_is_told_again_from_time_to_time(
    scaler: Scaler,
) -> None:
    scaler.read(ready=1)
    async with scaler.stream() as states:
        for _ in range(3):
            assert (await anext(states)).result
            scaler.clock.advance(RESEND_S)
            scaler.read(ready=1)


async def test_a_stream_waits_without_a_word_until_something_is_known(scaler: Scaler) -> None:
    scaler.read(ready=1)
    scaler.clock.advance(STALE_S + 1)
    async with scaler.stream() as states:
        scaler.read()
        assert not (await anext(states)).result


async def test_a_stream_ends_well_before_its_connection_does(scaler: Scaler) -> None:
    scaler.read()
    async with scaler.stream() as states:
        await anext(states)
        scaler.clock.advance(LIFE_S)
        scaler.read(ready=1)
        assert await anext(states, None) is None


async def test_streams_end_well_when_the_server_drains(scaler: Scaler) -> None:
    scaler.read()
    async with scaler.stream() as states:
        await anext(states)
        scaler.demand.close()
        assert await anext(states, None) is None
    await scaler.service.end_streams(60.0)


async def test_streams_are_bounded_and_those_that_ended_make_room(
    scaler: Scaler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_STREAMS", 1)
    scaler.read()
    async with scaler.stream() as states, scaler.stream() as more:
        await anext(states)
        with pytest.raises(ResourceExhausted):
            await anext(more)
    async with scaler.stream() as states:
        await anext(states)
