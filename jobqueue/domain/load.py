"""What a pod has in flight, and what that is worth when one of several pods has to go (R-10.2)."""

from collections.abc import Iterable
from dataclasses import dataclass

_PER_DOUBLING = 1000
_MOST_JOBS = 512
"""A count that is larger counts as this: it must stay below one doubling."""
_MOST_DOUBLINGS = 99
"""More minutes than any clock has; the cost stays far within the 32 bits that Kubernetes reads."""
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """How many jobs run, and since when the oldest of them does.

    ``since`` is in seconds of the machine's monotonic clock, which all its processes share; it
    means nothing without jobs.
    """

    jobs: int = 0
    since: float = 0.0


IDLE = Load()


def together(loads: Iterable[Load]) -> Load:
    """Return the load of several processes as one."""
    busy = [load for load in loads if load.jobs > 0]
    if not busy:
        return IDLE
    return Load(sum(load.jobs for load in busy), min(load.since for load in busy))


def deletion_cost(load: Load, now: float) -> int:
    """Return 0 for an idle pod; for a busy one the more, the more would be lost with it.

    First counts how long the oldest job has run: 1,000 from the first minute on, and another 1,000
    each time that its minutes have doubled. Then how many jobs run, rounded up to a power of two.
    Both are coarse so that the cost of a pod that works steadily rarely changes.
    """
    if load.jobs <= 0:
        return 0
    minutes = int(max(now - load.since, 0.0) / _MINUTE_S)
    doublings = min(minutes.bit_length(), _MOST_DOUBLINGS)
    return _PER_DOUBLING * doublings + min(1 << (load.jobs - 1).bit_length(), _MOST_JOBS)
