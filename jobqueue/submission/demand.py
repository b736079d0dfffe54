"""What the queues ask of an autoscaler, from the figures that metrics show too (R-10.2).

Asking costs the database nothing. The figures are a few seconds old; a job that was submitted here
to a queue without work has them read anew at once, so that the first worker is not waited for.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from jobqueue.domain.scaling import Load, claimable
from jobqueue.domain.state import JobStatus
from jobqueue.errors import Unavailable
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.store.signals import JOBS_MOVED, Move
from jobqueue.submission.figures import FIGURES, STALE_S, Figures, QueueFigures

PACE_S = 60.0
"""Over how long the pace of a queue is taken."""
NUDGE_GAP_S = 1.0
"""The figures are asked for out of turn once in this time at most."""


class _Look(NamedTuple):
    """When a look was taken, and how many jobs of each queue had ended by then."""

    at: float
    finished: Mapping[str, int]


class Demand:
    """Knows the figures of the last look. ``listen``, then ``close``.

    ``is_open`` until then, ``taken`` counts looks. ``look`` has one taken soon; it must not block.
    """

    def __init__(self, look: Callable[[], None], clock: Clock = SYSTEM_CLOCK) -> None:
        self.is_open = True
        self.taken = 0
        self._look = look
        self._clock = clock
        self._queues: Mapping[str, QueueFigures] = {}
        self._looks: deque[_Look] = deque()
        self._news = asyncio.Event()
        self._nudge: asyncio.TimerHandle | None = None
        self._next_nudge = clock.monotonic()
        self._stops: list[Callable[[], None]] = []

    def listen(self) -> None:
        """Take note of figures and of submissions from now on."""
        self._stops = [FIGURES.subscribe(self._read), JOBS_MOVED.subscribe(self._moved)]

    def close(self) -> None:
        """Listen no more, and let those who wait for news go."""
        self.is_open = False
        for stop in self._stops:
            stop()
        if self._nudge is not None:
            self._nudge.cancel()
        self._news.set()

    def load(self, queues: frozenset[str] | None) -> Load:
        """Return what these queues, or all, ask for; those that do not exist ask for nothing.

        Raises Unavailable when the figures are too old to act on.
        """
        if not self.is_known:
            raise Unavailable("the queues could not be read of late", reason="NO_FIGURES")
        known = self._queues.values()
        chosen = [each for each in known if queues is None or each.name in queues]
        return _load(chosen, self._pace([each.name for each in chosen]))

    @property
    def is_known(self) -> bool:
        """True while there are figures that may be acted on."""
        return bool(self._looks) and self._clock.monotonic() - self._looks[-1].at <= STALE_S

    async def news(self, taken: int, within_s: float) -> None:
        """Wait until more looks than that were taken, or for the end; so many seconds at most."""
        if self.is_open and self.taken == taken:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._news.wait()

    def _read(self, figures: Figures) -> None:
        if not self.is_known:  # a pace over an outage would be far too low
            self._looks.clear()
        now = self._clock.monotonic()
        self._queues = {queue.name: queue for queue in figures.queues}
        finished = {queue.name: queue.finished for queue in figures.queues}
        self._looks.append(_Look(now, finished))
        # One that is older than the time over which the pace is taken begins it.
        while len(self._looks) > 1 and self._looks[1].at <= now - PACE_S:
            self._looks.popleft()
        self.taken += 1
        self._news.set()
        self._news = asyncio.Event()

    def _pace(self, queues: Iterable[str]) -> float | None:
        """Return how many jobs of these ended a second; None while there was one look only."""
        first, last = self._looks[0], self._looks[-1]
        if last.at <= first.at:
            return None
        # A queue that is new since then began with none; one that was made anew counts from 0.
        ended = (last.finished[name] - first.finished.get(name, 0) for name in queues)
        return sum(max(count, 0) for count in ended) / (last.at - first.at)

    def _moved(self, moves: Mapping[Move, int]) -> None:
        pending = (move.queue for move in moves if move.status is JobStatus.PENDING)
        if self._nudge is None and any(map(self._is_idle, pending)):
            wait_s = max(self._next_nudge - self._clock.monotonic(), 0.0)
            self._nudge = asyncio.get_running_loop().call_later(wait_s, self._look_now)

    def _is_idle(self, queue: str) -> bool:
        known = self._queues.get(queue)
        return known is None or not (known.ready or known.held)

    def _look_now(self) -> None:
        self._nudge = None
        self._next_nudge = self._clock.monotonic() + NUDGE_GAP_S
        self._look()


def _load(queues: Iterable[QueueFigures], finished_per_s: float | None) -> Load:
    able, held, oldest_age_s = 0, 0, 0.0
    for queue in queues:
        here = claimable(
            queue.ready, queue.held, paused=queue.paused, max_running=queue.max_running
        )
        able, held = able + here, held + queue.held
        if here:
            oldest_age_s = max(oldest_age_s, queue.oldest_age_s)
    return Load(able, held, oldest_age_s, finished_per_s)
