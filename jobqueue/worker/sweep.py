"""Ends what left its process group: by ``setsid``, by two forks, as a daemon (R-4.10).

A group is ended by one signal, without a look at the machine. What has left it is found by its
mark, a variable that it inherited, or by its descent, seen while the leader lived.
"""

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
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

HASTY_LOOK_S = (0.35, 0.35)
"""What a look may take while a death is awaited: two looks and the death itself must fit into the
executor's ``DEATH_LIMIT_S``. In two waits, so that a stop of this process uses up but one."""

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
        self._hanging: set[asyncio.Task[Any]] = set()
        self._carriers = Carriers()  # belongs to the thread

    def stand_by(self) -> None:
        """Have the thread: a machine that has no more to give must not keep a group from its end.

        Raises OSError when there is none to be had.
        """
        try:
            self._thread.submit(int)
        except RuntimeError as error:
            raise BlockingIOError(errno.EAGAIN, str(error)) from error

    async def kin(self, leader: int, *, hasty: bool = False) -> list[Kin]:
        """Return what descends from a living leader; nothing when the look hangs.

        ``hasty``: nor when it takes longer than ``HASTY_LOOK_S``.
        """
        return descendants(leader, await self._look(self._living.ask(leader), hasty) or ())

    async def sweep(self, mark: str, kin: Sequence[Kin], *, hasty: bool = False) -> None:
        """Return when nothing with this mark is alive, nor any of ``kin``, or the look hangs.

        ``hasty``: or it takes longer than ``HASTY_LOOK_S``; then it goes on by itself.
        """
        await self._look(self._ends.ask((mark, kin)), hasty)

    def close(self) -> None:
        """Look no more."""
        self._thread.shutdown(wait=False)

    async def _look(self, look: Coroutine[Any, Any, R], hasty: bool) -> R | None:  # noqa: FBT001 - as it was asked
        if self._hanging:  # it would only wait behind that, and so would all that are still to come
            look.close()
            return None
        answer = self._kept(self._answer(look))
        return await _within(HASTY_LOOK_S, answer) if hasty else await answer

    async def _answer(self, look: Coroutine[Any, Any, R]) -> R | None:
        """Wait for a look; one that hangs is left to itself, and no attempt waits with it."""
        task = self._kept(look)
        answer = await _within(awake_slices(LOOK_LIMIT_S), task)
        if not task.done():
            self._hanging.add(task)
            task.add_done_callback(self._hanging.discard)
            LOOK_HANGS.emit(LookHangs(LOOK_LIMIT_S))
        return answer

    def _kept(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Start it; it goes on when nobody waits for it any more."""
        task = asyncio.create_task(work)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        return task

    def _end(self, asked: Sequence[tuple[str, Sequence[Kin]]]) -> None:
        kin = [each for _, theirs in asked for each in theirs]
        end_strays({mark for mark, _ in asked}, kin, self._carriers)


async def _within(slices_s: Iterable[float], work: asyncio.Task[R]) -> R | None:
    """Return the result, or None when there is none after so many waits."""
    for slice_s in slices_s:
        await asyncio.wait({work}, timeout=slice_s)
        if work.done():
            return work.result()
    return None


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
