"""What the workers of a soak run: the work of the chaos runs, programs, and one that may leak.

With ``SOAK_LEAK=descriptors`` (``memory``, ``threads``) in the environment of a run, each job of
the type ``tidy`` leaves some behind: so that it can be seen that a leak is found.
"""

import asyncio
import os
import threading

from jobqueue.worker import Context, handler
from tests.chaos import work

LEAK = "SOAK_LEAK"
SHELL = (
    "n=$(cat /proc/sys/kernel/random/uuid); f=$CHAOS_NOTES/$$.notes;"
    ' echo "begun $JQ_JOB_ID $JQ_JOB_ATTEMPT $n $$ $(date +%s.%N)" >>"$f";'
    ' echo "returned $n $(date +%s.%N)" >>"$f"; printf %s "$n"'
)
"""Notes what the handlers note."""

_LASTING_S = 40.0
_LEAK_BYTES = 64 * 1024
_LEFT: list[object] = []
_NEVER = threading.Event()


def leak_descriptors() -> None:
    """Leave a descriptor open."""
    _LEFT.append(os.open(os.devnull, os.O_RDONLY))


def leak_memory() -> None:
    """Keep some memory that was written to."""
    _LEFT.append(bytearray(b"x" * _LEAK_BYTES))


def leak_threads() -> None:
    """Start a thread that never ends."""
    threading.Thread(target=_NEVER.wait, daemon=True).start()


_LEAKS = {"descriptors": leak_descriptors, "memory": leak_memory, "threads": leak_threads}


@handler("tidy")
async def tidy(context: Context) -> str:
    """Work for no time."""
    if leak := os.environ.get(LEAK):
        _LEAKS[leak]()
    with work.noted(context) as nonce:
        return nonce


@handler("lasting")
async def lasting(context: Context) -> str:
    """Work for longer than a lease lasts without being renewed."""
    with work.noted(context) as nonce:
        await asyncio.sleep(_LASTING_S)
        return nonce


@handler("thread", threads=True)
def thread(context: Context) -> str:
    """Work in a thread of the worker."""
    with work.noted(context) as nonce:
        return nonce
