"""Asks a scaler as KEDA's own client does (pkg/scalers/external_scaler.go of kedacore/keda).

One channel that goes round the servers; no credentials; two calls a poll; the larger number wins;
a push stream that is opened again after 2 s, 4 s … up to a minute, after a clean end after 2 s.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc

from jobqueue.externalscaler import externalscaler_pb2 as pb
from jobqueue.externalscaler.externalscaler_pb2_grpc import ExternalScalerStub

_ROUND_ROBIN = '{"loadBalancingConfig": [{"round_robin":{}}]}'
_FIRST_RETRY_S, _LAST_RETRY_S = 2.0, 60.0


class NoMetric(Exception):
    """The scaler answered, and with nothing: KEDA cannot scale."""


@dataclass(frozen=True)
class Spec:
    """What KEDA puts into the HPA."""

    metric: str
    target: float


class Keda:
    """One trigger of a ScaledObject. ``pace`` shortens its waits, for tests."""

    def __init__(
        self,
        ports: Sequence[int],
        metadata: Mapping[str, str],
        *,
        index: int = 0,
        credentials: grpc.ChannelCredentials | None = None,
        pace: float = 1.0,
    ) -> None:
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        options = [("grpc.service_config", _ROUND_ROBIN)]
        target = f"ipv4:{servers}" if credentials is None else f"localhost:{ports[0]}"
        self._channel = (
            grpc.aio.insecure_channel(target, options)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options)
        )
        self._stub = ExternalScalerStub(self._channel)
        address = {"scalerAddress": target}
        self._ref = pb.ScaledObjectRef(
            name="jq-worker", namespace="jobqueue", scalerMetadata={**metadata, **address}
        )
        self._prefix = f"s{index}-"
        self._pace = pace
        self.opened = 0
        self.ends: list[grpc.StatusCode] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()

    async def spec(self) -> Spec:
        """Ask for the metric, as KEDA does when it makes the HPA."""
        (spec,) = (await self._stub.GetMetricSpec(self._ref)).metricSpecs
        target = spec.targetSizeFloat if spec.targetSizeFloat > 0 else float(spec.targetSize)
        return Spec(f"{self._prefix}{spec.metricName}", target)

    async def poll(self, metric: str) -> tuple[float, bool]:
        """Ask for value and activity, as KEDA does every polling interval and for each HPA sync."""
        name = metric.removeprefix(self._prefix)
        asked = pb.GetMetricsRequest(scaledObjectRef=self._ref, metricName=name)
        values = (await self._stub.GetMetrics(asked)).metricValues
        if not values:
            raise NoMetric(metric)
        found = [v.metricValueFloat if v.metricValueFloat > 0 else v.metricValue for v in values]
        return float(found[0]), (await self._stub.IsActive(self._ref)).result

    async def push(self) -> AsyncGenerator[bool, None]:
        """Yield what a trigger of the type external-push hears, for ever."""
        retry_s = _FIRST_RETRY_S
        while True:
            self.opened += 1
            try:
                async for answer in self._stub.StreamIsActive(self._ref):
                    yield answer.result
                self.ends.append(grpc.StatusCode.OK)
                retry_s = _FIRST_RETRY_S
            except grpc.aio.AioRpcError as error:
                self.ends.append(error.code())
            await asyncio.sleep(retry_s * self._pace)
            retry_s = min(2 * retry_s, _LAST_RETRY_S)
