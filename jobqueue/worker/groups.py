"""A program in a session of its own, which can be ended with all that it started.

Programs are started from the thread of the event loop, which is the main thread: the
parent-death signal follows the thread that started a process.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import IO, Any

from jobqueue.runtime.tasks import seen_through
from jobqueue.worker.guard import Guard
from jobqueue.worker.guard_process import MARK

_VANISH_LIMIT_S = 1.0
"""SIGKILL empties a group at once; only zombies that no init process reaps look alive longer."""

_TAKEN = 256
"""In place of an exit code that a handler took from us, by ``waitpid`` or by ignoring SIGCHLD. None
that a process can have: what is not known to have gone well has not."""


class ProcessGroup:
    """One started program and everything it starts.

    ``exited`` may be waited for by many; ``end`` leaves nothing of it alive, neither in the group
    nor, on Linux, outside of it.
    """

    def __init__(self, process: subprocess.Popen[bytes], guard: Guard, mark: str) -> None:
        self._process = process
        self._guard = guard
        self._mark = mark
        self._over = False
        guard.add(process.pid, mark)  # first: a worker that is killed before leaves it unguarded
        self._exit = _watch(process)

    @classmethod
    def spawn(
        cls,
        argv: Sequence[str],
        guard: Guard,
        *,
        streams: "tuple[int | IO[bytes] | None, ...]",
        env: Mapping[str, str] | None = None,
        keep_fds: Sequence[int] = (),
    ) -> "ProcessGroup":
        """Start ``argv``; ``streams`` are stdin, stdout and stderr as ``Popen`` takes them.

        Raises OSError when the program cannot be started, ValueError for a NUL in an argument.
        """
        stdin, stdout, stderr = streams
        guard.stand_by()
        mark = secrets.token_hex(8)
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={**(os.environ if env is None else env), MARK: mark},
            pass_fds=keep_fds,
            start_new_session=True,
        )
        try:
            return cls(process, guard, mark)
        except BaseException:
            # Nobody would end it: it must not go on.
            process.kill()
            process.wait()
            guard.discard(process.pid)
            raise

    @property
    def pid(self) -> int:
        """Process id of the leader, and number of the group."""
        return self._process.pid

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The leader, for its pipes."""
        return self._process

    @property
    def alive(self) -> bool:
        """True until the leader's exit was seen."""
        return not self._exit.done()

    def on_exit(self, call: Callable[[], object]) -> None:
        """Have ``call`` called on the event loop when the leader's exit was seen."""
        self._exit.add_done_callback(lambda _: call())

    async def exited(self) -> int:
        """Wait for the leader; return its exit code, negative for a signal."""
        return await asyncio.shield(self._exit)

    async def end(self, patience: Coroutine[Any, Any, object] | None = None) -> int:
        """End the group: SIGTERM, then SIGKILL once ``patience`` is over (None: at once).

        Returns the leader's exit code when the leader is dead and nothing that it started lives, or
        the look for that hangs. Who is patient with the group has no time for a long look. A caller
        who is cancelled meanwhile is held until then too. A group that has ended is left alone.
        """
        if self._over:
            if patience is not None:
                patience.close()
            return await self.exited()
        return await seen_through(self._end(patience))

    async def _end(self, patience: Coroutine[Any, Any, object] | None) -> int:
        # While the leader lives, what descends from it can be told by that.
        sweeper, hasty = self._guard.sweeper, patience is not None
        kin = await sweeper.kin(self.pid, hasty=hasty) if self.alive else ()
        if patience is not None:
            self._signal(signal.SIGTERM)
            await _first(self.exited(), patience)
        self._signal(signal.SIGKILL)
        code = await self.exited()
        self._process.wait()  # it is dead; from here on its number may be another's,
        self._over = True  # whom no second call may strike
        await sweeper.sweep(self._mark, kin, hasty=hasty)
        await self._vanish()
        self._guard.discard(self.pid)
        return code

    def _signal(self, number: int) -> bool:
        """Send to the whole group; False when nothing is left of it."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # macOS says so for a group of zombies
        return True

    async def _vanish(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_VANISH_LIMIT_S):
                pause = 0.001
                while self._signal(0):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, 0.05)


def exit_words(code: int) -> str:
    """Return ``exited with code 3`` or ``died with signal SIGSEGV``."""
    if code == _TAKEN:
        return "ended, and a handler took its exit code from the worker"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"died with signal {signal.Signals(-code).name}"
    except ValueError:
        return f"died with signal {-code}"


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for the first of them, and leave none running."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _watch(process: "subprocess.Popen[bytes]") -> "asyncio.Future[int]":
    """Return a future of the exit code. A pidfd costs no thread; elsewhere a thread waits."""
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            _watch_pidfd(process, ended)
            return ended
    threading.Thread(target=_watch_blocking, args=(process, ended), daemon=True).start()
    return ended


def _watch_pidfd(process: "subprocess.Popen[bytes]", ended: "asyncio.Future[int]") -> None:
    loop, pidfd = asyncio.get_running_loop(), os.pidfd_open(process.pid)

    def look() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        _set(ended, _exit_code(process))

    try:
        loop.add_reader(pidfd, look)
    except BaseException:
        os.close(pidfd)
        raise


def _watch_blocking(process: "subprocess.Popen[bytes]", ended: "asyncio.Future[int]") -> None:
    code = _exit_code(process)
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        ended.get_loop().call_soon_threadsafe(_set, ended, code)


def _exit_code(process: "subprocess.Popen[bytes]") -> int:
    """Wait for its end, but do not reap it: its group bears its number, and is still to be ended.

    After that a signal to the group may strike whoever was given the number since.
    """
    if sys.platform != "linux":
        return process.wait()
    try:
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return _TAKEN
    assert found is not None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _set(ended: "asyncio.Future[int]", code: int) -> None:
    if not ended.done():
        ended.set_result(code)
