"""Handlers as people write them, and as they should not. Imported by handler processes too."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from jobqueue.worker import Context, Done, Fail, RetryLater, handler

RELEASE = threading.Event()
"""Lets stuck thread handlers of this process go."""


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def nested(depth: int) -> list[object]:
    """Return a list in a list in a list."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def value_of(payload: bytes) -> object:
    """Return one of the values, or raise one of the exceptions, that tests ask for by name."""
    if payload == b"deep":  # it takes a while to build
        return nested(20_000)
    loop: list[object] = []
    loop.append(loop)
    values: dict[str, object] = {
        "none": None,
        "bytes": b"\x00\xff",
        "text": "grüße\x00",
        "surrogate": "a\ud800b",
        "json": {"ä": [1, 2.5, None, True]},
        "done": Done({"ok": 1}),
        "nan": {"x": float("nan")},
        "inf": [float("inf")],
        "cycle": loop,
        "object": object(),
        "huge": b"x" * (3 * 1024 * 1024),
        "returned-fail": Fail("no way"),
    }
    return values[payload.decode()]


def exception_of(payload: bytes) -> BaseException:
    exceptions: dict[str, BaseException] = {
        "value": ValueError("bad value"),
        "notext": NoText(),
        "nul": ValueError("a\x00b"),
        "surrogate": ValueError("a\ud800b"),
        "huge": ValueError("x" * 10_000_000),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "base": BaseException("base"),
        "cancelled": asyncio.CancelledError(),
        "generator": GeneratorExit(),
        "stop": StopIteration(),
        "later": RetryLater(7.5, "not yet"),
        "fail": Fail("never"),
    }
    return exceptions[payload.decode()]


def recurse() -> NoReturn:
    recurse()


@handler("async-starts")
async def starts_programs(context: Context) -> list[int]:
    """Start programs one after the other on the worker's own loop; return how they ended."""
    codes = []
    for _ in range(int(context.payload)):
        codes.append(await (await asyncio.create_subprocess_exec("true")).wait())  # noqa: PERF401
    return sorted(set(codes))


@handler("echo")
def echo(context: Context) -> bytes:
    return context.payload


@handler("facts")
def facts(context: Context) -> dict[str, object]:
    left = None if context.deadline is None else context.deadline - time.monotonic()
    return {
        "job_id": str(context.job_id),
        "queue": context.queue,
        "type": context.type,
        "attempt": context.attempt,
        "labels": dict(context.labels),
        "left": left,
        "cancelled": context.cancelled(),
        "pid": os.getpid(),
    }


@handler("returns")
def returns(context: Context) -> object:
    return value_of(context.payload)


@handler("raises")
def raises(context: Context) -> None:
    if context.payload == b"recursion":
        recurse()
    raise exception_of(context.payload)


@handler("async-returns")
async def async_returns(context: Context) -> object:
    return value_of(context.payload)


@handler("async-raises")
async def async_raises(context: Context) -> None:
    if context.payload == b"recursion":
        recurse()
    raise exception_of(context.payload)


@handler("async-cancels-itself")
async def async_cancels_itself(_: Context) -> None:
    """Cancel the task it runs in, and return before that is noticed."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@handler("async-waits-a-turn")
async def async_waits_a_turn(_: Context) -> None:
    """Wait for as short as one can."""
    await asyncio.sleep(0)


@handler("async-sleeps", timeout=60)
async def async_sleeps(context: Context) -> None:
    """Sleep, and leave a note when cancelled."""
    try:
        await asyncio.sleep(60)
    finally:
        if context.payload:
            Path(context.payload.decode()).write_text(str(context.cancelled()), encoding="ascii")


@handler("async-deaf")
async def async_deaf(context: Context) -> None:
    """Swallow cancellation until told otherwise."""
    while not RELEASE.is_set():
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


@handler("thread", threads=True)
def in_thread(context: Context) -> str:
    return threading.current_thread().name


@handler("thread-polite", threads=True)
def thread_polite(context: Context) -> str:
    """End when asked to."""
    while not context.cancelled():
        time.sleep(0.01)
    return "stopped"


@handler("thread-deaf", threads=True)
def thread_deaf(_context: Context) -> None:
    RELEASE.wait(60)


@handler("thread-raises", threads=True)
def thread_raises(context: Context) -> None:
    raise exception_of(context.payload)


@handler("prints")
def prints(_context: Context) -> str:
    print("to stdout")  # noqa: T201 - that is the point
    return "printed"


@handler("sleeps")
def sleeps(context: Context) -> None:
    """Write our pid, sleep, and leave a note when ended by SIGTERM."""
    path = Path(context.payload.decode())
    path.write_text(str(os.getpid()), encoding="ascii")
    try:
        time.sleep(60)
    finally:
        path.with_suffix(".end").write_text(str(context.cancelled()), encoding="ascii")


@handler("async-takes-signals")
async def async_takes_signals(_context: Context) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


@handler("ignores-term")
def ignores_term(context: Context) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(context.payload.decode()).write_text(str(os.getpid()), encoding="ascii")
    time.sleep(60)


@handler("leaves-grandchild")
def leaves_grandchild(context: Context) -> None:
    """Start a process that ignores SIGTERM, and wait for it."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        Path(context.payload.decode()).write_text(str(process.pid), encoding="ascii")
        process.wait()


@handler("segfaults")
def segfaults(_context: Context) -> None:
    ctypes.string_at(0)


@handler("exits-at-once")
def exits_at_once(_context: Context) -> None:
    os._exit(7)


@handler("killed")
def killed(_context: Context) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
