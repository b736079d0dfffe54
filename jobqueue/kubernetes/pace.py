"""When the annotation is worth a write. Pure: time and chance are arguments.

Each write is a change of the pod that the API server stores and sends to all who watch pods, so
Kubernetes asks for few of them.
"""

from collections import deque

FIRST_WAIT_S, LAST_WAIT_S = 5.0, 300.0
"""The wait after a failure doubles from the first to the second."""


class Pace:
    """Follows a cost and says what to write.

    - A rise from 0 is written at once: it is what protects a pod.
    - Any other change waits until ``interval_s`` have passed since the last write.
    - What counts is the highest cost of the last ``interval_s``: a pod with short breaks between
      its jobs is a busy one, and its cost stands still.

    So there are at most two writes in an interval, and none while nothing changes.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._falling: deque[tuple[float, int]] = deque()  # costs that no later one has reached
        self._written: int | None = None
        self._next_at = float("-inf")
        self._failures = 0

    @property
    def known(self) -> bool:
        """Whether the annotation is what was last written, as far as we know."""
        return self._written is not None

    def due(self, now: float, cost: int) -> int | None:
        """Note the cost of now; return the one to write, or None when none is due."""
        highest = self._highest(now, cost)
        if highest == self._written:
            return None
        protects = self._written == 0
        return highest if protects or now >= self._next_at else None

    def wrote(self, now: float, cost: int) -> None:
        """Note that the annotation is ``cost``."""
        self._written, self._failures = cost, 0
        self._next_at = now + self._interval_s

    def failed(self, now: float, *, at_least_s: float, chance: float) -> None:
        """Note that nobody knows what the annotation is, and wait, longer each time.

        ``at_least_s`` is what the API server asked for, of which at most ``LAST_WAIT_S`` are
        granted. ``chance`` in [0, 1) adds up to a half: pods that failed together must not come
        back together.
        """
        self._written = None
        doubled_s = FIRST_WAIT_S * 2.0 ** min(self._failures, 16)
        self._failures += 1
        self._next_at = now + min(max(doubled_s, at_least_s), LAST_WAIT_S) * (1 + chance / 2)

    def _highest(self, now: float, cost: int) -> int:
        while self._falling and self._falling[-1][1] <= cost:
            self._falling.pop()
        self._falling.append((now, cost))
        while self._falling[0][0] < now - self._interval_s:
            self._falling.popleft()
        return self._falling[0][1]
