"""One attempt while it runs: its limits, and why it should stop."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from enum import Enum, auto

from jobqueue.domain.lease import LeasedJob
from jobqueue.worker.around import Trail
from jobqueue.worker.context import Context
from jobqueue.worker.waiting import any_set_within


class Stop(Enum):
    """Why a running handler must end before it is done."""

    TIMED_OUT = auto()
    CANCELLED = auto()
    RELEASED = auto()  # the worker shuts down
    LOST = auto()  # somebody else may run the job already: nothing to report


def _own_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None, "an attempt is made in the task that runs it"
    return task


class Attempt:
    """A job on its way through one handler. Belongs to the event loop.

    Made in the task that runs it. ``timeout_s`` counts from ``begin``, which the runner calls when
    the handler really starts; ``on_begin`` then hears it. ``on_stop`` hears of the first request
    for an end; the handler then has ``kill_grace_s`` to end by itself. ``trail`` is how it is
    followed.
    """

    def __init__(
        self,
        job: LeasedJob,
        *,
        timeout_s: float | None,
        kill_grace_s: float,
        trail: Trail,
        on_begin: Callable[["Attempt"], None],
        on_stop: Callable[["Attempt"], None],
    ) -> None:
        self.job = job
        self.trail = trail
        self.task = _own_task()
        self.timeout_s = timeout_s
        self.reason: Stop | None = None
        self._kill_grace_s = kill_grace_s
        self._on_begin = on_begin
        self.given_up = False
        self._on_stop = on_stop
        self._over = asyncio.Event()
        self._hurried = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._deadline: float | None = None

    def begin(self) -> None:
        """The handler starts now: its time runs."""
        if self.timeout_s is None:
            return
        self._deadline = time.monotonic() + self.timeout_s
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(self.timeout_s, self.stop, Stop.TIMED_OUT)
        self._on_begin(self)

    def stop(self, reason: Stop) -> None:
        """Ask for an end. The first reason stays, except that a lost lease voids any other."""
        first = self.reason is None
        if first or reason is Stop.LOST:
            self.reason = reason
        if first:
            self._on_stop(self)

    async def forget_cancellation(self) -> None:
        """What cancelled the handler is done with: this task goes on."""
        if not self.task.cancelling():
            return
        # One that the handler met at no wait would stay with the task, for the next job's.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        while self.task.uncancel():
            pass

    def hurry(self) -> None:
        """Have no patience any more: what does not end at once is killed."""
        self._hurried.set()

    async def patience(self) -> None:
        """Wait as long as a stopped handler may take to end by itself."""
        await any_set_within(self._kill_grace_s, self._hurried)

    async def dies(self, death_limit_s: float) -> bool:
        """Return whether a stopped attempt is over in time, counting from the end of patience."""
        await any_set_within(self._kill_grace_s, self._over, self._hurried)
        await any_set_within(death_limit_s, self._over)
        return self._over.is_set()

    def close(self) -> None:
        """The attempt is over: no alarm any more."""
        self._over.set()
        if self._alarm is not None:
            self._alarm.cancel()

    @property
    def context(self) -> Context:
        """What a handler in this process sees."""
        job = self.job
        return Context(
            job_id=job.job_id,
            queue=job.queue,
            type=job.type,
            payload=job.payload,
            attempt=job.attempt,
            deadline=self._deadline,
            labels=job.labels,
            _stopping=self._is_stopping,
        )

    def _is_stopping(self) -> bool:
        """May be asked from any thread."""
        return self.reason is not None
