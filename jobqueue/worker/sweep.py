"""Ends what left its process group: by ``setsid``, by two forks, as a daemon (R-4.10).

A group is ended by one signal, without a look at the machine. What has left it is found by its
mark, a variable that it inherited, or by its descent, seen while the leader lived.
"""

import asyncio
import errno
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from jobqueue.worker.guard_process import Carriers, Kin, Process, descendants, end_strays, processes

A = TypeVar("A")
R = TypeVar("R")


class Sweeper:
    """Looks at the processes of this machine. Belongs to the event loop."""

    def __init__(self) -> None:
        # A thread of its own: those of the loop are at the disposal of handlers, who may hang.
        self._thread = ThreadPoolExecutor(1, "sweep")
        self._living: _Joined[int, list[Process]] = _Joined(
            lambda _leaders: processes(), self._thread
        )
        self._ends = _Joined(self._end, self._thread)
        self._carriers = Carriers()  # belongs to the thread

    def stand_by(self) -> None:
        """Have the thread: a machine that has no more to give must not keep a group from its end.

        Raises OSError when there is none to be had.
        """
        try:
            self._thread.submit(int)
        except RuntimeError as error:
            raise BlockingIOError(errno.EAGAIN, str(error)) from error

    async def kin(self, leader: int) -> list[Kin]:
        """Return what descends from a living leader."""
        return descendants(leader, await self._living.ask(leader))

    async def sweep(self, mark: str, kin: Sequence[Kin]) -> None:
        """Return when nothing with this mark is alive, nor any of ``kin``."""
        await self._ends.ask((mark, kin))

    def close(self) -> None:
        """Look no more."""
        self._thread.shutdown(wait=False)

    def _end(self, asked: Sequence[tuple[str, Sequence[Kin]]]) -> None:
        kin = [each for _, theirs in asked for each in theirs]
        end_strays({mark for mark, _ in asked}, kin, self._carriers)


@dataclass
class _Round(Generic[A, R]):
    asked: list[A] = field(default_factory=list)
    answers: list[R] = field(default_factory=list)  # none before the look


class _Joined(Generic[A, R]):
    """Looks in a thread, once for all who asked before the look began: it takes milliseconds."""

    def __init__(self, look: Callable[[Sequence[A]], R], thread: Executor) -> None:
        self._look = look
        self._thread = thread
        self._turn = asyncio.Lock()
        self._round: _Round[A, R] = _Round()

    async def ask(self, what: A) -> R:
        """Return the answer of a look that began after this call."""
        mine = self._round
        mine.asked.append(what)
        async with self._turn:
            if not mine.answers:
                self._round = _Round()  # who comes from now on comes too late for this look
                loop = asyncio.get_running_loop()
                look = loop.run_in_executor(self._thread, self._look, mine.asked)
                mine.answers.append(await look)
        return mine.answers[0]
