"""One attempt while it runs: its limits, and why it should stop."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto

from jobqueue.domain.lease import LeasedJob
from jobqueue.worker.context import Context


class Stop(Enum):
    """Why a running handler must end before it is done."""

    TIMED_OUT = auto()
    CANCELLED = auto()
    RELEASED = auto()  # the worker shuts down
    LOST = auto()  # somebody else may run the job already: nothing to report


class Attempt:
    """A job on its way through one handler. Belongs to the event loop.

    ``timeout_s`` counts from ``begin``, which the runner calls when the handler really starts;
    ``on_begin`` then hears it. ``stopped`` is done once somebody asked for an end; the handler then
    has ``kill_grace_s`` to end by itself. ``carrier`` is the trace context of this attempt.
    """

    def __init__(
        self,
        job: LeasedJob,
        *,
        timeout_s: float | None,
        kill_grace_s: float,
        on_begin: Callable[[float], None],
    ) -> None:
        self.job = job
        self.timeout_s = timeout_s
        self.reason: Stop | None = None
        self.carrier: Mapping[str, str] = job.trace_context
        self._kill_grace_s = kill_grace_s
        self._on_begin = on_begin
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hurried = asyncio.Event()
        self._seen = threading.Event()  # the same as stopped, for threads
        self._alarm: asyncio.TimerHandle | None = None
        self._deadline: float | None = None

    def begin(self) -> None:
        """The handler starts now: its time runs."""
        if self.timeout_s is None:
            return
        self._deadline = time.monotonic() + self.timeout_s
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(self.timeout_s, self.stop, Stop.TIMED_OUT)
        self._on_begin(self.timeout_s)

    def stop(self, reason: Stop) -> None:
        """Ask for an end. The first reason stays, except that a lost lease voids any other."""
        if self.reason is None or reason is Stop.LOST:
            self.reason = reason
        if not self.stopped.done():
            self.stopped.set_result(None)
        self._seen.set()

    def hurry(self) -> None:
        """Have no patience any more: what does not end at once is killed."""
        self._hurried.set()

    async def patience(self) -> None:
        """Wait as long as a stopped handler may take to end by itself."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._kill_grace_s):
                await self._hurried.wait()

    def close(self) -> None:
        """The attempt is over: no alarm any more."""
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
            _stopping=self._seen.is_set,
        )
