"""Ends what left its process group: by ``setsid``, by two forks, as a daemon (R-4.10).

A group is ended by one signal, without a look at the machine. What has left it is found by its
mark, a variable that it inherited, or by its descent, seen while the leader lived.
"""

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from jobqueue.worker.guard_process import Carriers, Kin, Process, descendants, end_strays, processes
from jobqueue.worker.signals import LOOK_HANGS, LookHangs
from jobqueue.worker.waiting import awake_slices

LOOK_LIMIT_S = 10.0
"""A look takes milliseconds, and kills for a second at most. But the kernel lets who reads of a
process wait for as long as that one waits for a disk that is gone."""

A = TypeVar("A")
R = TypeVar("R")


class Sweeper:
    """Looks at the processes of this machine. Belongs to the event loop."""

    def __init__(self) -> None:
        # A thread of its own: those of the loop are at the disposal of handlers, who may hang.
        self._thread = _Daemon("sweep")
        self._living: _Joined[int, list[Process]] = _Joined(
            lambda _leaders: processes(), self._thread
        )
        self._ends = _Joined(self._end, self._thread)
        self._looks: set[asyncio.Task[Any]] = set()
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
        """Return what descends from a living leader; nothing when the look hangs."""
        return descendants(leader, await self._answer(self._living.ask(leader)) or ())

    async def sweep(self, mark: str, kin: Sequence[Kin]) -> None:
        """Return when nothing with this mark is alive, nor any of ``kin``, or the look hangs."""
        await self._answer(self._ends.ask((mark, kin)))

    def close(self) -> None:
        """Look no more."""
        self._thread.shutdown(wait=False)

    async def _answer(self, look: Coroutine[Any, Any, R]) -> R | None:
        """Wait for a look; one that hangs is left to itself, and no attempt waits with it."""
        task = asyncio.create_task(look)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        for slice_s in awake_slices(LOOK_LIMIT_S):
            await asyncio.wait({task}, timeout=slice_s)
            if task.done():
                return task.result()
        LOOK_HANGS.emit(LookHangs(LOOK_LIMIT_S))
        return None

    def _end(self, asked: Sequence[tuple[str, Sequence[Kin]]]) -> None:
        kin = [each for _, theirs in asked for each in theirs]
        end_strays({mark for mark, _ in asked}, kin, self._carriers)


class _Daemon(Executor):
    """One thread. It keeps no process from ending, as one of the library's would: it may hang."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._closed = False

    def submit(self, call: Callable[..., R], /, *args: Any, **options: Any) -> "Future[R]":
        """Do it soon. Raises RuntimeError when there is no thread to be had, or no more."""
        if self._closed:
            raise RuntimeError("it is closed")
        if self._thread.ident is None:
            self._thread.start()
        done: Future[R] = Future()
        self._work.put((done, partial(call, *args, **options)))
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the library's interface
        """Do nothing after what was asked so far."""
        self._closed = True
        self._work.put(None)

    def _run(self) -> None:
        while work := self._work.get():
            done, call = work
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(call())
                except BaseException as error:  # noqa: BLE001 - told to whoever asked
                    done.set_exception(error)


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
