"""The conversation of a program with the harness: one JSON object a line. Standard library only.

The program says that it is ready, hears an order, carries it out, and says what it did; so start-up
is in no figure.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

PAYLOAD_BYTES = 100
Submit = Callable[[int], Awaitable[object]]


def say(**words: Any) -> None:
    """Say one thing."""
    print(json.dumps(words), flush=True)


def hear() -> dict[str, Any]:
    """Return the next order; ends the program when there will be none."""
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    order: dict[str, Any] = json.loads(line)
    return order


async def submit_in_batches(submit: Submit) -> None:
    """Store as many jobs as ordered, or as many as ``seconds`` allow, and say how many.

    ``submit`` stores so many jobs in one go; ``callers`` of it run at once, ``batch`` jobs each.
    """
    say(ready=True)
    while True:
        say(stored=await _carry_out(hear(), submit))


async def _carry_out(order: dict[str, Any], submit: Submit) -> int:
    left, deadline = order["jobs"], time.monotonic() + order["seconds"]

    async def call() -> None:
        nonlocal left
        while left > 0 and time.monotonic() < deadline:
            count = min(order["batch"], left)
            left -= count
            await submit(count)

    await asyncio.gather(*(call() for _ in range(order["callers"])))
    return int(order["jobs"] - left)


def filler() -> str:
    """Return the one value of a JSON object that is as long as every system's payload."""
    return "x" * (PAYLOAD_BYTES - len('{"p":""}'))


def json_payload() -> str:
    """Return that object."""
    return json.dumps({"p": filler()}, separators=(",", ":"))
