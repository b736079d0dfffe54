"""How a watcher goes on: what is news, what ends it, how long to pause. No I/O.

Each round asks for the job, then opens a stream of its changes. A round therefore works as a poll
where streams do not get through, and a change that falls between two streams is not missed.
"""

import random
import time
from collections.abc import Callable

from jobqueue.domain.job import Job
from jobqueue.errors import (
    DeadlineExceeded,
    Internal,
    JobQueueError,
    ResourceExhausted,
    Unavailable,
)

STREAM_S = 60.0
"""A stream is opened anew after this, so that a dead connection is noticed without pings."""

_SHORTEST_S = 0.001
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_PASSING = (Unavailable, DeadlineExceeded, ResourceExhausted, Internal)
_LASTING = ("UNREADABLE_ANSWER", "CLIENT_CLOSED")


def passes(error: JobQueueError) -> bool:
    """Tell whether what broke a stream may be over at the next try."""
    return isinstance(error, _PASSING) and error.reason not in _LASTING


class Follow:
    """The course of one watch over one job, from the first answer to the terminal status."""

    def __init__(
        self, job_id: str, timeout_s: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start the time; ``timeout_s`` None never ends."""
        self.job_id = job_id
        self._timeout_s = timeout_s
        self._clock = clock
        self._started = clock()
        self._job: Job | None = None
        self._quiet_rounds = 0

    def finished(self) -> bool:
        """True once the job was seen in a terminal status."""
        return self._job is not None and self._job.status.terminal

    def is_news(self, job: Job) -> bool:
        """Remember the job; True when it differs from what was seen last."""
        news = job != self._job
        self._job = job
        if news:
            self._quiet_rounds = 0
        return news

    def call_s(self, seconds: float | None) -> float:
        """Return the bound of one call: ``seconds``, or what is left when that is less."""
        return min(self._left(), float("inf") if seconds is None else seconds)

    def stream_s(self) -> float:
        """Return the bound of one stream."""
        return min(self._left(), STREAM_S)

    def pause_s(self, error: JobQueueError | None) -> float:
        """Return how long to wait before the next round.

        Raises ``error`` when going on is no use: it will not pass, or there never was an answer.
        Raises DeadlineExceeded with the reason WAIT_TIMEOUT when the time is over.
        """
        if isinstance(error, DeadlineExceeded) and self._over():
            raise self._timed_out() from error
        if error is not None and not (self._job and passes(error)):
            raise error
        left = self._left()
        pause = min(_FIRST_PAUSE_S * 2.0 ** min(self._quiet_rounds, 10), _LONGEST_PAUSE_S)
        self._quiet_rounds += 1
        return min(pause * random.uniform(0.8, 1.0), left)  # noqa: S311 - spreads load only

    def _over(self) -> bool:
        return self._timeout_s is not None and self._clock() - self._started >= self._timeout_s

    def _left(self) -> float:
        """Return the seconds that are left. Raises when there are none."""
        if self._timeout_s is None:
            return float("inf")
        if self._over() and self._job is not None:
            raise self._timed_out()
        return max(self._started + self._timeout_s - self._clock(), _SHORTEST_S)

    def _timed_out(self) -> DeadlineExceeded:
        state = f"is still {self._job.status}" if self._job else "has not answered"
        message = f"job {self.job_id} {state} after {round(self._timeout_s or 0, 3):g} seconds"
        return DeadlineExceeded(message, reason="WAIT_TIMEOUT")
