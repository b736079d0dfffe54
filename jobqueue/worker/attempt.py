"""One attempt while it runs: its limits, and why it should stop."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from enum import Enum, auto
from typing import Protocol

from jobqueue.domain.lease import LeasedJob
from jobqueue.worker.around import Trail
from jobqueue.worker.context import Context
from jobqueue.worker.waiting import any_set_within, any_set_within_awake


class Stop(Enum):
    """Why a running handler must end before it is done."""

    TIMED_OUT = auto()
    CANCELLED = auto()
    RELEASED = auto()  # the worker shuts down
    LOST = auto()  # somebody else may run the job already: nothing to report


class Watching(Protocol):
    """Who hears of the turns of an attempt."""

    kill_grace_s: float

    def begun(self, attempt: "Attempt") -> None:
        """The handler has started, and may take ``timeout_s`` seconds."""

    def stopped(self, attempt: "Attempt") -> None:
        """Somebody wants it to end, for the first time."""


class Attempt:
    """A job on its way through one handler, in ``task``. Belongs to the event loop.

    ``timeout_s`` counts from ``begin``, which the runner calls when the handler really starts.
    Once it is asked to end, the handler has ``kill_grace_s`` seconds to do so by itself. ``trail``
    is how it is followed, where somebody does. ``begun_at`` is when its handler was looked up, in
    monotonic seconds.

    Made for every job, so what only few need is of the class until they do.
    """

    trail: Trail | None = None
    reason: Stop | None = None
    finished = False
    given_up = False
    begun_at = 0.0
    _end: "_End | None" = None
    _alarm: asyncio.TimerHandle | None = None
    _deadline: float | None = None

    def __init__(
        self,
        job: LeasedJob,
        task: asyncio.Task[None],
        timeout_s: float | None,
        watching: Watching,
    ) -> None:
        self.job = job
        self.task = task
        self.timeout_s = timeout_s
        self._watching = watching

    def begin(self) -> None:
        """The handler starts now: its time runs."""
        if self.timeout_s is None:
            return
        self._deadline = time.monotonic() + self.timeout_s
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(self.timeout_s, self.stop, Stop.TIMED_OUT)
        self._watching.begun(self)

    def finish(self) -> None:
        """The handler came to its end: what is still to be done is to clear up behind it."""
        self.finished = True

    def stop(self, reason: Stop) -> None:
        """Ask for an end. The first reason stays, except that a lost lease voids any other.

        Who has finished is not asked any more: it is as it ended, unless its lease is lost.
        """
        if self.finished and reason is not Stop.LOST:
            return
        first = self.reason is None
        if first or reason is Stop.LOST:
            self.reason = reason
        if first:
            self._ending()  # made now, so that an end that comes at once is seen
            self._watching.stopped(self)

    async def forget_cancellation(self) -> None:
        """What cancelled the handler is done with: this task goes on."""
        # One that the handler met at no wait would stay with the task, for the next job's.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        while self.task.uncancel():
            pass

    def hurry(self) -> None:
        """Have no patience any more: what does not end at once is killed."""
        self._ending().hurried.set()

    async def patience(self) -> None:
        """Wait as long as a stopped handler may take to end by itself."""
        await any_set_within(self._watching.kill_grace_s, self._ending().hurried)

    async def dies(self, death_limit_s: float) -> bool:
        """Return whether a stopped attempt is over in time, counting from the end of patience."""
        end = self._ending()
        await any_set_within(self._watching.kill_grace_s, end.over, end.hurried)
        await any_set_within_awake(death_limit_s, end.over)
        return end.over.is_set()

    def close(self) -> None:
        """The attempt is over: no alarm any more."""
        if self._end is not None:
            self._end.over.set()
        if self._alarm is not None:
            self._alarm.cancel()

    @property
    def carrier(self) -> Mapping[str, str]:
        """The W3C trace context for what runs in another process; may hold other keys."""
        return self.job.trace_context if self.trail is None else self.trail.carrier

    @property
    def context(self) -> Context:
        """What a handler in this process sees."""
        job = self.job
        return Context(
            job.job_id,
            job.queue,
            job.type,
            job.payload,
            job.attempt,
            self._deadline,
            job.labels,
            self._is_stopping,
        )

    def _ending(self) -> "_End":
        if self._end is None:
            self._end = _End()
        return self._end

    def _is_stopping(self) -> bool:
        """May be asked from any thread."""
        return self.reason is not None


class _End:
    """How the end of a stopped attempt comes about."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.hurried = asyncio.Event()
