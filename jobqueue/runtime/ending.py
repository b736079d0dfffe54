"""Ends tasks whose clean-up may hang.

A cancelled statement waits, in its clean-up, for PostgreSQL to confirm that it stopped. A database
that does not answer must not keep a program from ending: the second cancellation breaks that off.
"""

import asyncio
from typing import Any

AGAIN_S = 0.5
"""What a clean-up may take before it is cancelled too."""

_TIMES = 6


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task until it has ended; never raises what it raised.

    One that resists for three seconds is left to itself.
    """
    for _ in range(_TIMES):
        task.cancel()
        await asyncio.wait({task}, timeout=AGAIN_S)
        if task.done():
            await asyncio.gather(task, return_exceptions=True)
            return


async def done_within(task: asyncio.Task[Any], seconds: float) -> bool:
    """Let a task go on for ``seconds``, then end it; say whether it finished by itself.

    Raises what it raised when it did.
    """
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            await task
            return True
        return False
    finally:
        await end(task)
