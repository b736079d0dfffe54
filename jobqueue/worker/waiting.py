"""Waiting for whichever comes first."""

import asyncio
import contextlib
from collections.abc import Iterator
from itertools import repeat

_SLICES = 8


async def any_set(*events: asyncio.Event) -> None:
    """Wait until at least one of ``events`` is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def any_set_within(seconds: float, *events: asyncio.Event) -> None:
    """Wait until at least one of ``events`` is set, or ``seconds`` are over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await any_set(*events)


async def any_set_within_awake(seconds: float, *events: asyncio.Event) -> None:
    """Wait likewise, for about ``seconds`` in which this process ran.

    One that was stopped, or whose loop was held, wakes up to a limit that is over, and to events
    that it could not hear.
    """
    for slice_s in awake_slices(seconds):
        await any_set_within(slice_s, *events)
        if any(event.is_set() for event in events):
            return


def awake_slices(seconds: float) -> Iterator[float]:
    """Cut a wait up, so that a stop of this process counts for an eighth of it at most."""
    return repeat(seconds / _SLICES, _SLICES)
