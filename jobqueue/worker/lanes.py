"""Starts jobs: those whose handlers do not wait share a task.

A task for each job costs more than a handler that is done at once. So a lane, one task, runs job
after job, for as long as nothing tells a job that it is not alone: its handler did not wait, it
left the context variables as it found them, and nobody cancelled it. The first that waits keeps
the lane for itself, as if the task had been made for it, and the jobs behind it go on in others.
"""

import asyncio
import contextvars
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.runtime.tasks import own_task

SLICE_S = 0.001
"""After so long a lane lets the rest of the process have its turn."""

_TURNS = 4
"""Before a slice that comes after another one the loop turns so often: an answer of the database
is read, its task goes on, and lets go the statement behind it. So the database works while the
handlers do."""

_WIDER = 2
"""Behind a job that waits so many lanes open: those of a thousand jobs that wait are open after
ten turns of the loop."""

Run = Callable[[LeasedJob, asyncio.Task[None]], Coroutine[Any, Any, None]]


class Lanes:
    """Runs each job by ``run``, in the order in which they came.

    ``run`` is told the task in which it is called, and raises nothing.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._context = contextvars.copy_context()
        self._queued: deque[LeasedJob] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many jobs have not begun."""
        return len(self._queued)

    def start(self, jobs: Iterable[LeasedJob]) -> None:
        """Run these soon."""
        self._context = contextvars.copy_context()
        behind = bool(self._queued)
        self._queued.extend(jobs)
        if not behind:
            self._open(1, turns=_TURNS)

    def take_back(self, lease: Lease) -> LeasedJob | None:
        """Return this job, which will not run then; None when it has begun, or is not known."""
        job = next((job for job in self._queued if job.lease == lease), None)
        if job is not None:
            self._queued.remove(job)
        return job

    def take_all_back(self) -> list[LeasedJob]:
        """Return all that have not begun."""
        jobs = list(self._queued)
        self._queued.clear()
        return jobs

    def _open(self, count: int, turns: int) -> None:
        for _ in range(min(count, len(self._queued))):
            task = asyncio.create_task(self._lane(turns), context=self._context.copy())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _lane(self, turns: int) -> None:
        lane, watch = _Lane(), None
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
            lane.begin()
            watch = asyncio.get_running_loop().call_soon(self._passed_by, lane)
            while self._queued:
                await self._run(self._queued.popleft(), lane.task)
                if lane.is_spent():
                    break
        finally:  # whatever came of it: those behind must run
            if watch is not None:
                watch.cancel()
            if not lane.waited:
                self._open(1, turns=_TURNS)

    def _passed_by(self, lane: "_Lane") -> None:
        """The loop turned while a job ran: its handler waits."""
        lane.waited = True
        self._open(_WIDER, turns=0)  # the loop has just turned


class _Lane:
    """Whether a task is still as good as new."""

    def __init__(self) -> None:
        self.waited = False
        self.task = own_task()
        self._context = contextvars.copy_context()
        self._until = math.inf

    def begin(self) -> None:
        """The first job is about to run."""
        self._until = time.monotonic() + SLICE_S

    def is_spent(self) -> bool:
        """Return whether the next job needs another task."""
        return (
            self.waited
            or time.monotonic() >= self._until
            or self.task.cancelling() > 0
            or self._left_something()
        )

    def _left_something(self) -> bool:
        """Tell whether a context variable is another one than before, or cannot be compared."""
        try:
            return contextvars.copy_context() != self._context
        except Exception:  # noqa: BLE001 - the variables are anybody's
            return True
