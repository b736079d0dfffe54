"""What the workers of the fleet run: short work that is under way most of the time."""

import asyncio
from pathlib import Path

from jobqueue.worker import Context, handler
from tests.support.fleet import STEADY_S, WORK_S


@handler("work")
async def work(context: Context) -> bytes:
    """Return the payload after a moment."""
    await asyncio.sleep(WORK_S)
    return context.payload


@handler("steady")
async def steady(context: Context) -> bytes:
    """Return the payload after a longer moment: so much work lasts while programs restart."""
    await asyncio.sleep(STEADY_S)
    return context.payload


@handler("nap")
async def nap(context: Context) -> bytes:
    """Return the payload, a number, after so many seconds."""
    await asyncio.sleep(float(context.payload))
    return context.payload


@handler("gated")
async def gated(context: Context) -> bytes:
    """Return the payload, a path, once there is such a file."""
    while not Path(context.payload.decode()).exists():  # noqa: ASYNC110 - a file
        await asyncio.sleep(0.25)
    return context.payload
