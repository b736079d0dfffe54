"""Calls SubmitJob, one job a call, many callers at once: `singles ADDRESS`."""

import asyncio
import itertools
import sys
import time
from typing import Any

import grpc.aio
import uvloop

from bench.programs.talk import PAYLOAD_BYTES, hear, say
from bench.stats import percentiles
from bench.systems import NOOP, QUEUE
from jobqueue.transport import channel_options
from jobqueue.v1.job_pb2 import JobSpec
from jobqueue.v1.job_service_pb2 import SubmitJobRequest
from jobqueue.v1.job_service_pb2_grpc import JobServiceStub

_TIMEOUT_S = 30.0
_SPEC = JobSpec(queue=QUEUE, type=NOOP, payload=b"x" * PAYLOAD_BYTES)


class Callers:
    """Callers that share a connection, as the coroutines of one application do."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._numbers = itertools.count(time.monotonic_ns())

    async def call(self, callers: int, seconds: float) -> dict[str, float]:
        """Call for so long; return how often, and the latencies in milliseconds."""
        deadline = time.monotonic() + seconds
        times: list[float] = []
        await asyncio.gather(*(self._one(deadline, times) for _ in range(callers)))
        return {"calls": len(times), **percentiles(times, scale=1000)}

    async def _one(self, deadline: float, times: list[float]) -> None:
        while (begun := time.monotonic()) < deadline:
            request = SubmitJobRequest(job=_SPEC, request_id=f"{next(self._numbers):032}")
            await self._stub.SubmitJob(request, timeout=_TIMEOUT_S)
            times.append(time.monotonic() - begun)


async def main(address: str) -> None:
    """Take orders until there are no more."""
    async with grpc.aio.insecure_channel(address, channel_options(address)) as channel:
        callers = Callers(JobServiceStub(channel))
        say(ready=True)
        while True:
            order = hear()
            say(**await callers.call(order["callers"], order["seconds"]))


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
