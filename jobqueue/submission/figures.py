"""Reads every few seconds what metrics tell of the whole system (R-7.1).

Every server does, whether it acts or stands by, so that each shows the same.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobqueue.domain.queue import QueueStats
from jobqueue.domain.state import JobStatus
from jobqueue.runtime.service import Service
from jobqueue.runtime.signals import Signal
from jobqueue.store.faults import translated
from jobqueue.store.figures import count_active_workers, count_ready, read_oldest_xmin
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.queues import get_queue_stats

INTERVAL_S = 5.0
READY_COUNTED = 10_000
_LIMIT_S = 10.0
_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One queue. ``runnable`` is 0 while it is paused."""

    name: str
    depth: Mapping[JobStatus, int]
    runnable: int
    oldest_age_s: float
    unhandled: int


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

    async def turn(self) -> None:
        """Read once. Raises Unavailable and its like when the database does not answer in time."""
        with translated():
            async with asyncio.timeout(_LIMIT_S), self._pool.acquire() as connection:
                figures = await read_figures(connection)
        FIGURES.emit(figures)


async def read_figures(db: Connection) -> Figures:
    """Return the figures of now. They cost the same however many jobs there are."""
    stats = await get_queue_stats(db, None, _WINDOW_S)
    ready = await count_ready(db, READY_COUNTED)
    workers = await count_active_workers(db)
    queues = [_queue(each, ready.get(each.queue, 0)) for each in stats]
    return Figures(queues, workers, await read_oldest_xmin(db))


def _queue(stats: QueueStats, ready: int) -> QueueFigures:
    return QueueFigures(
        stats.queue,
        stats.depth,
        0 if stats.paused else runnable(stats.depth, ready),
        stats.oldest_runnable_s or 0.0,
        stats.unhandled,
    )


def runnable(depth: Mapping[JobStatus, int], ready: int) -> int:
    """Return how many jobs run or could, of which ``ready`` were counted as claimable.

    No more than 10,000 are counted. Where there are more, all that are PENDING are taken for
    them: delayed ones too, but nobody needs as many workers as that makes.
    """
    waiting = ready if ready < READY_COUNTED else max(ready, depth[JobStatus.PENDING])
    return waiting + depth[JobStatus.ASSIGNED] + depth[JobStatus.RUNNING]
