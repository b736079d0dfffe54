"""How a tail goes on when its stream breaks: from where, for how long, what was told. No I/O."""

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

from jobqueue.client import event_calls
from jobqueue.client.calls import Call
from jobqueue.client.follow import passes
from jobqueue.domain.job import JobEvent
from jobqueue.errors import JobQueueError, Unavailable

PATIENCE_S = 10.0
"""A restart takes less, another server is there at once: who is away for longer is gone."""

_REMEMBERED = 4_000
"""Events that may come again: a thousand since the last place, and after a failover of the database
a thousand from before it."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


class Resume:
    """The course of one tail over any number of streams."""

    def __init__(
        self,
        queue: str | None,
        types: Sequence[str],
        after: int | None,
        *,
        follow: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.over = False
        self._wanted = (queue, types)
        self._after = after
        self._follow = follow
        self._clock = clock
        self._place = ""
        self._resumes = False
        self._had: deque[tuple[int, datetime]] = deque(maxlen=_REMEMBERED)
        self._again: frozenset[tuple[int, datetime]] = frozenset()
        self._broken_at: float | None = None
        self._tries = 0

    def call(self) -> Call[JobEvent | str]:
        """Return what opens the next stream. Raises InvalidArgument.

        A server that knows no places begins after the last event instead, so that it soon tells
        one where there is any: then it is noticed.
        """
        self._again = frozenset(self._had)
        self._resumes = bool(self._place)
        return event_calls.tail(*self._wanted, self._after, self._place, follow=self._follow)

    def news(self, told: JobEvent | str) -> JobEvent | None:
        """Remember what a stream told; return an event that is new.

        Raises Unavailable when the stream did not begin at the place that was asked for.
        """
        if self._resumes and not isinstance(told, str):
            raise _no_place()
        self._broken_at, self._tries, self._resumes = None, 0, False
        if isinstance(told, str):
            self._place = told
            return None
        known = (told.event_id, told.at)
        self._had.append(known)
        self._after = max(self._after or 0, told.event_id)
        return None if known in self._again else told

    def pause_s(self, error: JobQueueError | None) -> float:
        """Return how long to wait before the next stream, unless it is ``over`` now.

        Raises ``error`` when going on is no use: it will not pass, there never was a place to go on
        from, or it lasts.
        """
        if error is None and self._resumes:
            error = _no_place()
        self.over = error is None and not self._follow
        if self.over:
            return 0.0
        if error is not None and not self._passes(error):
            raise error
        pause = min(_FIRST_PAUSE_S * 2.0 ** min(self._tries, 10), _LONGEST_PAUSE_S)
        self._tries += 1
        return pause * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load only

    def _passes(self, error: JobQueueError) -> bool:
        now = self._clock()
        self._broken_at = now if self._broken_at is None else self._broken_at
        return passes(error) and bool(self._place) and now - self._broken_at < PATIENCE_S


def _no_place() -> Unavailable:
    return Unavailable("the server is too old to go on where the tail was", reason="NO_PLACE")
