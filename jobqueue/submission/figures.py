"""Reads every few seconds what metrics tell of the whole system (R-7.1).

Every server does, whether it acts or stands by, so that each shows the same.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobqueue.domain.queue import QueueStats
from jobqueue.domain.state import JobStatus
from jobqueue.runtime.service import Service
from jobqueue.runtime.signals import Signal
from jobqueue.store.faults import translated
from jobqueue.store.figures import (
    count_active_workers,
    count_delayed,
    count_ready,
    read_oldest_xmin,
)
from jobqueue.store.pool import Connection, Pool, transaction
from jobqueue.store.queues import get_queue_stats

INTERVAL_S = 5.0
STALE_S = 30.0
"""What is older is not told to those who scale or alert: an outage is not an empty queue."""
DELAYED_COUNTED, READY_COUNTED = 20_000, 1_000
"""Of delayed jobs in all, and else of claimable ones of a queue: no more are counted."""

_LIMIT_S = 10.0
_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One queue. ``ready`` are the PENDING jobs that wait for nothing but a worker.

    ``finished`` counts jobs that ended since the queue was made.
    """

    name: str
    depth: Mapping[JobStatus, int]
    ready: int
    oldest_age_s: float
    unhandled: int
    paused: bool = False
    max_running: int | None = None
    finished: int = 0

    @property
    def held(self) -> int:
        """Jobs that workers have: ASSIGNED or RUNNING."""
        return self.depth[JobStatus.ASSIGNED] + self.depth[JobStatus.RUNNING]

    @property
    def runnable(self) -> int:
        """Jobs that may run now or do, 0 while the queue is paused."""
        return 0 if self.paused else self.ready + self.held


@dataclass(frozen=True, slots=True)
class Figures:
    """The system as a whole, at most a few seconds old."""

    queues: Sequence[QueueFigures]
    active_workers: int
    oldest_xmin_age_s: float


FIGURES: Signal[Figures] = Signal("figures")


class FigureReader(Service):
    """Signals ``FIGURES``."""

    def __init__(self, pool: Pool, *, interval_s: float = INTERVAL_S) -> None:
        super().__init__("figures", interval_s=interval_s, bound_s=interval_s + _LIMIT_S)
        self._pool = pool

    def hurry(self) -> None:
        """Read now, not at the end of the wait; nothing happens while reads are dear."""
        if not self._looks.wait_s:
            self.wake()

    async def turn(self) -> float:
        """Read once. Raises Unavailable and its like when the database does not answer in time."""
        with translated():
            async with asyncio.timeout(_LIMIT_S), self._pool.acquire() as connection:
                begun = time.monotonic()
                figures = await read_figures(connection)
                took_s = time.monotonic() - begun
        FIGURES.emit(figures)
        return self.sparing(took_s)


async def read_figures(db: Connection) -> Figures:
    """Return the figures of one snapshot. They cost the same however many jobs there are."""
    async with transaction(db, snapshot=True):
        stats = await get_queue_stats(db, None, _WINDOW_S)
        ready = await _claimable(db, stats)
        workers = await count_active_workers(db)
        queues = [_queue(each, ready[each.queue]) for each in stats]
        return Figures(queues, workers, await read_oldest_xmin(db))


async def _claimable(db: Connection, stats: Sequence[QueueStats]) -> Mapping[str, int]:
    """Return by queue how many PENDING jobs may be claimed now, without counting them.

    They are those that do not wait for a time, and mostly these are few. Where they are many, the
    claimable ones are counted up to 1,000 of a queue; beyond that all PENDING jobs of it are taken
    for claimable, delayed ones too.
    """
    pending = {each.queue: each.depth[JobStatus.PENDING] for each in stats}
    delayed = await count_delayed(db, DELAYED_COUNTED)
    if delayed is not None:
        # Restored depths may be too low until they are counted anew.
        return {queue: max(0, n - delayed.get(queue, 0)) for queue, n in pending.items()}
    ready = await count_ready(db, READY_COUNTED)
    return {
        queue: ready[queue] if ready[queue] < READY_COUNTED else count
        for queue, count in pending.items()
    }


def _queue(stats: QueueStats, ready: int) -> QueueFigures:
    return QueueFigures(
        stats.queue,
        stats.depth,
        ready,
        stats.oldest_runnable_s or 0.0,
        stats.unhandled,
        stats.paused,
        stats.max_running,
        stats.done_total + stats.dead_total,
    )
