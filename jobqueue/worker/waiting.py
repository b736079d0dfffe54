"""Waiting for whichever comes first."""

import asyncio
import contextlib


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
