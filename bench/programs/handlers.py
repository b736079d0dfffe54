"""Handlers of the measured jq-worker."""

import asyncio

from jobqueue.worker import Context, handler

_SHORT_S = 0.01


@handler("noop")
async def noop(_context: Context) -> None:
    """Do nothing."""


@handler("sleep")
async def sleep(_context: Context) -> None:
    """Work for ten milliseconds without using a processor."""
    await asyncio.sleep(_SHORT_S)
