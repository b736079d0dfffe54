"""Waiting on observed state: tests never sleep for a time they hope is long enough."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

HANG_S = 40.0
"""What a wait may take that must end: only against a hang, for machines stand still at times."""

_LOOK_AGAIN_S = 0.02


async def eventually(
    probe: Callable[[], Awaitable[T]], *, within_s: float = HANG_S, what: str = "the state"
) -> T:
    """Return the probe's first true answer. Raises AssertionError with the last one."""
    deadline = time.monotonic() + within_s
    while not (seen := await probe()):
        assert time.monotonic() < deadline, f"{what} was not reached; last seen: {seen!r}"
        await asyncio.sleep(_LOOK_AGAIN_S)
    return seen


def eventually_sync(
    probe: Callable[[], T], *, within_s: float = HANG_S, what: str = "the state"
) -> T:
    """Do the same for tests that run programs and no loop."""
    deadline = time.monotonic() + within_s
    while not (seen := probe()):
        assert time.monotonic() < deadline, f"{what} was not reached; last seen: {seen!r}"
        time.sleep(_LOOK_AGAIN_S)
    return seen
