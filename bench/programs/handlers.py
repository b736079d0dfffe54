"""Handlers of the measured jq-worker."""

import asyncio
import time

from jobqueue.worker import Context, handler

FAILS_ONCE = b"fails once"
_SHORT_S, DOZE_S = 0.01, 2.0


class FailedOnPurposeError(Exception):
    """What a handler raises that was told to."""


@handler("noop")
async def noop(_context: Context) -> None:
    """Do nothing."""


@handler("sleep")
async def sleep(_context: Context) -> None:
    """Work for ten milliseconds without using a processor."""
    await asyncio.sleep(_SHORT_S)


@handler("doze")
async def doze(_context: Context) -> None:
    """Hold a slot for two seconds without using a processor."""
    await asyncio.sleep(DOZE_S)


@handler("hang")
async def hang(_context: Context) -> None:
    """Never end."""
    await asyncio.Event().wait()


@handler("stamp")
async def stamp(_context: Context) -> str:
    """Return when it was started."""
    return repr(time.time())


@handler("flaky")
async def flaky(context: Context) -> None:
    """Fail the first attempt of jobs that ask for it."""
    if context.payload == FAILS_ONCE and context.attempt == 1:
        raise FailedOnPurposeError
