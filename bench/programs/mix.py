"""Submits a mixture of jobs at a fixed rate, without waiting for answers: `mix ADDRESS`."""

import asyncio
import sys
import time

import uvloop

from bench.programs.handlers import FAILS_ONCE
from bench.programs.talk import PAYLOAD_BYTES, hear, say
from bench.systems import NOOP, QUEUE
from jobqueue.client import AsyncClient, JobSpec

_TIMEOUT_S = 60.0
_PAYLOAD = b"x" * PAYLOAD_BYTES


def spec(number: int) -> JobSpec:
    """Return one job of the mixture."""
    priority = number % 10
    if number % 10 == 1:
        return JobSpec(queue=QUEUE, type=NOOP, payload=_PAYLOAD, priority=priority, delay_s=1.0)
    if number % 20 == 2:  # noqa: PLR2004 - one in twenty
        return JobSpec(queue=QUEUE, type="flaky", payload=FAILS_ONCE, priority=priority)
    return JobSpec(queue=QUEUE, type=NOOP, payload=_PAYLOAD, priority=priority)


async def offer(client: AsyncClient, rate: float, seconds: float) -> dict[str, float]:
    """Call when each call is due, however late the others are; raises what any of them raised."""
    begun = time.monotonic()
    calls = int(rate * seconds)
    async with asyncio.TaskGroup() as group:
        for number in range(calls):
            ahead = begun + number / rate - time.monotonic()
            if ahead > 0:
                await asyncio.sleep(ahead)
            group.create_task(client.submit(spec(number)))
    return {"calls": calls, "seconds": time.monotonic() - begun}


async def main(address: str) -> None:
    """Take orders until there are no more."""
    async with AsyncClient(address, timeout_s=_TIMEOUT_S) as client:
        say(ready=True)
        while True:
            order = hear()
            say(**await offer(client, order["rate"], order["seconds"]))


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
