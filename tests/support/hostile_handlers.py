"""Handlers that harm others, or leave behind what outlives them. Each takes a path as payload."""

import asyncio
import ctypes
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from jobqueue.worker import Context, Fail, handler

STRAY = """trap '' TERM; echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 600"""
"""A shell command that ignores SIGTERM, notes its process id in the file $0, and stays."""

_NULL = subprocess.DEVNULL
_SPARE_BYTES = 256 * 1024 * 1024


def let_loose(context: Context, env: Mapping[str, str] | None = None) -> Path:
    """Start a process in a session of its own, and wait until it has noted its id."""
    path = Path(os.fsdecode(context.payload))
    argv = ["/bin/sh", "-c", STRAY, str(path)]
    subprocess.Popen(argv, stdin=_NULL, stdout=_NULL, stderr=_NULL, env=env, start_new_session=True)
    return noted(path)


def noted(path: Path) -> Path:
    """Wait for the note."""
    while not path.exists():
        time.sleep(0.01)
    return path


@handler("leaves-a-child")
def leaves_a_child(context: Context) -> None:
    let_loose(context)


@handler("leaves-a-nameless-child")
def leaves_a_nameless_child(context: Context) -> None:
    """Leave one with an environment that says nothing of where it is from."""
    let_loose(context, {"PATH": os.environ["PATH"]})


@handler("leaves-a-daemon")
def leaves_a_daemon(context: Context) -> None:
    """Leave one as daemons are made: of two forks, in a session of its own, all files closed."""
    path = Path(os.fsdecode(context.payload))
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            os.execv("/bin/sh", ["/bin/sh", "-c", STRAY, str(path)])
        os._exit(0)
    noted(path)


@handler("crashes-beside-a-daemon")
def crashes_beside_a_daemon(context: Context) -> None:
    leaves_a_daemon(context)
    os.kill(os.getpid(), signal.SIGSEGV)


@handler("hangs-beside-a-daemon")
def hangs_beside_a_daemon(context: Context) -> None:
    """Leave one, ignore the end, and never return."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leaves_a_daemon(context)
    time.sleep(600)


@handler("kills-its-worker")
def kills_its_worker(context: Context) -> None:
    """Leave one, and end the worker as nothing else would."""
    if context.attempt == 1:
        leaves_a_daemon(context)
    os.kill(os.getppid(), signal.SIGKILL)


@handler("forks")
def forks(context: Context) -> bytes:
    """Return twice: here, and in a copy of the process."""
    if os.fork() == 0:
        return b"from the copy"
    return context.payload


@handler("forks-a-slow-copy")
def forks_a_slow_copy(_context: Context) -> int:
    """Return, while a copy of the process has not yet."""
    copy = os.fork()
    if copy == 0:
        time.sleep(600)
    return copy


@handler("dies-beside-a-copy")
def dies_beside_a_copy(_context: Context) -> None:
    """Die, while a copy that no hook of the interpreter saw in the making keeps all files open."""
    if ctypes.PyDLL(None).fork() == 0:
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)


@handler("sets-an-alarm")
def sets_an_alarm(_context: Context) -> int:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    return os.getpid()


@handler("waits-for-an-alarm")
def waits_for_an_alarm(_context: Context) -> int:
    """Wait for longer than the alarm above."""
    time.sleep(0.2)
    return os.getpid()


@handler("blocks-sigterm")
def blocks_sigterm(_context: Context) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    return os.getpid()


@handler("lowers-a-limit")
def lowers_a_limit(_context: Context) -> int:
    """Leave the process with hardly a file to open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (8, hard))
    return os.getpid()


@handler("runs-out-of-memory")
def runs_out_of_memory(_context: Context) -> None:
    """Take more than the process may have, as a limit of the system says it."""
    size = psutil.Process().memory_info().vms
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + _SPARE_BYTES, hard))
    held = []
    try:
        while True:
            held.append(bytearray(_SPARE_BYTES // 8))
    except MemoryError as error:
        raise MemoryError(os.getpid()) from error


@handler("closes-every-file")
def closes_every_file(_context: Context) -> None:
    os.closerange(0, 256)


@handler("closes-its-streams")
def closes_its_streams(_context: Context) -> int:
    os.closerange(0, 3)
    return os.getpid()


@handler("writes-into-every-file")
def writes_into_every_file(_context: Context) -> None:
    """Write what looks like an answer to whoever listens; its own log is spared."""
    for fd in range(3, 64):
        try:
            os.write(fd, b"\0\0\0\2\0\0\0\0{}")
        except OSError:
            continue


@handler("answers-too-deeply")
def answers_too_deeply(_context: Context) -> None:
    """Answer with what no parser reads to its end, and stay."""
    answer = struct.pack(">II", 200_000, 0) + b"[" * 200_000
    for fd in range(3, 64):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, answer)
    time.sleep(600)


@handler("async-exits-in-a-task")
async def async_exits_in_a_task(_context: Context) -> None:
    async def exits() -> None:
        sys.exit(0)

    await asyncio.wait([asyncio.create_task(exits())])


@handler("async-stops-the-loop")
async def async_stops_the_loop(_context: Context) -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)


@handler("async-closes-the-loop")
async def async_closes_the_loop(_context: Context) -> None:
    asyncio.get_running_loop().close()


@handler("async-holds-the-interpreter")
async def async_holds_the_interpreter(context: Context) -> None:
    """Keep every thread of the worker from running for so many seconds."""
    left_s = int(context.payload)
    while left_s:  # a signal cuts it short
        left_s = ctypes.PyDLL(None).sleep(left_s)


@handler("async-ends-its-process")
async def async_ends_its_process(_context: Context) -> None:
    os._exit(0)


@handler("async-ends-its-process-with-two")
async def async_ends_its_process_with_two(_context: Context) -> None:
    """Do as a library that panics."""
    os._exit(2)


@handler("async-cancels-all")
async def async_cancels_all(_context: Context) -> None:
    """Cancel every task of the loop."""
    for task in asyncio.all_tasks():
        task.cancel()


@handler("async-forks")
async def async_forks(_context: Context) -> bytes:
    """Return the exit code of a copy, which goes on as the worker does where it is let."""
    if copy := os.fork():
        return b"%d" % os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])  # noqa: ASYNC222 - it ends at once
    await asyncio.sleep(0.1)
    return b"the copy"


@handler("async-forks-and-returns")
async def async_forks_and_returns(_context: Context) -> None:
    """Do the same, and wait for nobody."""
    os.fork()


@handler("async-segfaults")
async def async_segfaults(_context: Context) -> None:
    ctypes.string_at(0)


class Trap(Fail):
    """What the worker reads of it ends whoever does not expect that."""

    def __init__(self) -> None:
        """Not call ours."""

    @property
    def why(self) -> str:  # type: ignore[override]
        sys.exit(9)


@handler("thread-sets-a-trap", threads=True)
def thread_sets_a_trap(_context: Context) -> None:
    raise Trap


@handler("async-sets-a-trap")
async def async_sets_a_trap(_context: Context) -> None:
    raise Trap


@handler("bystander")
def bystander(context: Context) -> bytes:
    time.sleep(0.05)
    return context.payload


@handler("async-bystander")
async def async_bystander(context: Context) -> bytes:
    await asyncio.sleep(0.05)
    return context.payload


@handler("process")
def process(_context: Context) -> int:
    """Return the number of the process that runs this."""
    return os.getpid()


@handler("async-allows-processes")
async def async_allows_processes(context: Context) -> None:
    """Let the worker itself start so many more processes and threads; nothing: as many as ever."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (int(context.payload or hard), hard))


@handler("prints-much")
def prints_much(context: Context) -> None:
    """Print so many bytes, in lines of 10,000."""
    for _ in range(int(context.payload) // 10_000):
        print("x" * 9_999)  # noqa: T201 - that is the point


@handler("async-prints-much")
async def async_prints_much(context: Context) -> None:
    prints_much(context)
