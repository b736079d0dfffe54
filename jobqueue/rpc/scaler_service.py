"""ExternalScaler: what KEDA asks to set the number of workers (R-10.2)."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any, TypeAlias

import grpc

from jobqueue.domain.limits import Limits
from jobqueue.domain.scaling import Trigger, is_active, measure
from jobqueue.errors import ResourceExhausted
from jobqueue.externalscaler import externalscaler_pb2 as pb
from jobqueue.externalscaler.externalscaler_pb2_grpc import ExternalScalerServicer
from jobqueue.rpc.scaler_metadata import metric_name, read_trigger
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.submission.demand import Demand

MOST_STREAMS = 1_000
"""One for each trigger of the type external-push."""
RESEND_S = 30.0
"""A state that does not change is told again, should one have been lost on its way."""
LIFE_S = 1_500.0
"""A stream ends well, so that the next one may go to a server added since: KEDA comes again in 2 s.

After an error it would wait twice as long each time, and not forget that.
"""

# Unused by our methods: the guard is the only one that answers through it.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class ScalerService(ExternalScalerServicer):
    """Reads a trigger, looks at the demand, answers. Errors pass to the guard."""

    def __init__(self, demand: Demand, limits: Limits, clock: Clock = SYSTEM_CLOCK) -> None:
        self._demand = demand
        self._limits = limits
        self._clock = clock
        self._streams = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def IsActive(self, request: pb.ScaledObjectRef, context: Context) -> pb.IsActiveResponse:
        """Tell whether there must be a worker."""
        trigger = self._trigger(request)
        return pb.IsActiveResponse(result=is_active(trigger, self._demand.load(trigger.queues)))

    async def StreamIsActive(
        self, request: pb.ScaledObjectRef, context: Context
    ) -> AsyncIterator[pb.IsActiveResponse]:
        """Tell it now, after each change, and from time to time. Silent while it is not known."""
        trigger = self._trigger(request)
        with self._stream():
            async with aclosing(self._states(trigger)) as states:
                async for active in states:
                    yield pb.IsActiveResponse(result=active)

    async def GetMetricSpec(
        self, request: pb.ScaledObjectRef, context: Context
    ) -> pb.GetMetricSpecResponse:
        """Name the metric and its target."""
        trigger = self._trigger(request)
        spec = pb.MetricSpec(
            metricName=metric_name(trigger),
            targetSize=math.ceil(trigger.target),
            targetSizeFloat=trigger.target,
        )
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(
        self, request: pb.GetMetricsRequest, context: Context
    ) -> pb.GetMetricsResponse:
        """Tell the metric of the trigger. A name of another, from before a change, is no matter."""
        trigger = self._trigger(request.scaledObjectRef)
        value = measure(trigger, self._demand.load(trigger.queues))
        metric = pb.MetricValue(
            metricName=metric_name(trigger),
            metricValue=math.ceil(value),
            metricValueFloat=value,
        )
        return pb.GetMetricsResponse(metricValues=[metric])

    async def end_streams(self, within_s: float) -> None:
        """Let all streams end well; those that do not in time are left to the gate."""
        self._demand.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._quiet.wait()

    def _trigger(self, asked: pb.ScaledObjectRef) -> Trigger:
        return read_trigger(asked.scalerMetadata, self._limits)

    @contextmanager
    def _stream(self) -> Iterator[None]:
        if self._streams >= MOST_STREAMS:
            raise ResourceExhausted(f"{MOST_STREAMS} streams are open already")
        self._streams += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._streams -= 1
            if not self._streams:
                self._quiet.set()

    async def _states(self, trigger: Trigger) -> AsyncGenerator[bool, None]:
        begun = self._clock.monotonic()
        said, said_at = None, begun
        while self._demand.is_open and (now := self._clock.monotonic()) < begun + LIFE_S:
            taken, state = self._demand.taken, self._state(trigger)
            if state is not None and (state != said or now >= said_at + RESEND_S):
                said, said_at = state, now
                yield state
            await self._demand.news(taken, RESEND_S)

    def _state(self, trigger: Trigger) -> bool | None:
        """Return the state, None while nothing is known."""
        if not self._demand.is_known:
            return None
        return is_active(trigger, self._demand.load(trigger.queues))
