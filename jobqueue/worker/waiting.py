"""Waiting for whichever comes first."""

import asyncio


async def any_set(*events: asyncio.Event) -> None:
    """Wait until at least one of ``events`` is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
