"""What the workers of the chaos runs run. Each attempt writes its own notes, beside the record.

What it returns or raises has its nonce, by which the record is compared with the notes.

A note is one line in a file of the process that writes it, so that a kill loses none that was
written: ``begun JOB ATTEMPT NONCE TIME``, ``alive NONCE TIME``, ``returned NONCE TIME``.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from jobqueue.worker import Context, Fail, RetryLater, handler
from tests.chaos.history import NOTES

_STEP_S = 0.05
_SHORT_S, _LONG_S = 0.15, 4.0


def _note(*words: object) -> None:
    path = Path(os.environ[NOTES]) / f"{os.getpid()}.notes"
    line = " ".join(map(str, (*words, f"{time.time():.6f}"))) + "\n"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


@contextmanager
def noted(context: Context) -> Iterator[str]:
    """Note the beginning of an attempt, and its end when it comes to one."""
    nonce = uuid4().hex
    _note("begun", context.job_id, context.attempt, nonce, os.getpid())
    yield nonce
    _note("returned", nonce)


@handler("short")
async def short(context: Context) -> str:
    """Work for a moment."""
    with noted(context) as nonce:
        await asyncio.sleep(random.uniform(0, _SHORT_S))
        return nonce


@handler("long")
async def long(context: Context) -> str:
    """Work for longer than a lease lasts without being renewed."""
    with noted(context) as nonce:
        for _ in range(int(_LONG_S / _STEP_S)):
            await asyncio.sleep(_STEP_S)
            _note("alive", nonce)
        return nonce


@handler("child")
def child(context: Context) -> str:
    """Work in a process of its own."""
    with noted(context) as nonce:
        time.sleep(random.uniform(0, _SHORT_S))
        return nonce


@handler("stubborn", timeout=0.5)
def stubborn(context: Context) -> str:
    """Work for ever at the first attempt, and refuse to end: only SIGKILL helps."""
    with noted(context) as nonce:
        while context.attempt == 1:
            try:
                time.sleep(_STEP_S)
            except SystemExit:
                continue
            finally:
                _note("alive", nonce)
        return nonce


@handler("flaky")
async def flaky(context: Context) -> str:
    """Fail one time in two."""
    with noted(context) as nonce:
        if random.random() < 0.5:
            raise ValueError(nonce)
        return nonce


@handler("doomed")
async def doomed(context: Context) -> None:
    """Fail for good."""
    with noted(context) as nonce:
        raise Fail(nonce)


@handler("killer")
async def killer(context: Context) -> None:
    """Kill the worker."""
    with noted(context):
        os.kill(os.getpid(), signal.SIGKILL)


@handler("later")
async def later(context: Context) -> str:
    """Ask for another time once."""
    with noted(context) as nonce:
        if context.attempt == 1:
            raise RetryLater(0.2, nonce)
        return nonce
