"""The worker's side of its guard: a small process that outlives it by a moment.

A worker that dies by SIGKILL cannot end the programs it started. The guard sees its pipe close
and ends them, so that a job that is run again does not find its first attempt still at work.
"""

import contextlib
import os
import signal
import subprocess
import sys
from typing import IO

from jobqueue.runtime.copies import close_in_copies
from jobqueue.worker import guard_process
from jobqueue.worker.sweep import Sweeper

_END_LIMIT_S = 2.0


class Guard:
    """Knows the process groups of this worker. Starts its process before the first of them.

    Not for use from several threads.
    """

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}
        self.sweeper = Sweeper()
        self._process: subprocess.Popen[bytes] | None = None

    def stand_by(self) -> None:
        """Have all that ends groups, before there is one. Raises OSError when it cannot be had."""
        if self._process is None:
            self.sweeper.stand_by()
            self._restart()

    def add(self, group: int, mark: str) -> None:
        """Have ``group``, and what left it with this mark, killed when the worker dies.

        Raises OSError when there is no guard any more, nor another one to be had.
        """
        self._groups[group] = mark
        self._tell(f"+{group} {mark}\n")

    def discard(self, group: int) -> None:
        """The group is gone; its number may come back as somebody else's."""
        self._groups.pop(group, None)
        with contextlib.suppress(OSError):  # there is no guard, and the next one never hears of it
            self._tell(f"-{group}\n")

    def close(self) -> None:
        """Kill the groups still known and end the guard."""
        self.sweeper.close()
        if self._process is not None:
            self._shut(self._process)
            self._process = None

    def _tell(self, line: str) -> None:
        if self._process is None:
            return self._restart()
        try:
            os.write(self._stdin(self._process).fileno(), line.encode())
        except (BlockingIOError, BrokenPipeError):
            return self._restart()  # it was stopped, and would never hear this, or it is dead

    def _restart(self) -> None:
        """Start a guard that knows everything from the first."""
        if self._process is not None:
            self._process.kill()  # first: the end of its pipe would have it kill what runs
            self._shut(self._process)
            self._process = None  # should no other one start now, the next call tries again
        argv = [sys.executable, "-I", "-S", guard_process.__file__]
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
        )
        stdin = self._stdin(self._process)
        close_in_copies(stdin)  # it would not see our end while a copy of us lives
        pipe = stdin.fileno()
        known = "".join(f"+{group} {mark}\n" for group, mark in self._groups.items())
        os.write(pipe, known.encode())
        os.set_blocking(pipe, False)

    @staticmethod
    def _stdin(process: subprocess.Popen[bytes]) -> IO[bytes]:
        assert process.stdin is not None
        return process.stdin

    def _shut(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGCONT)  # a handler may have stopped it, and it has work to do
        with contextlib.suppress(BrokenPipeError):
            self._stdin(process).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT_S)
