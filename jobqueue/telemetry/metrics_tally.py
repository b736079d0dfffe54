"""Sums that are cheap to add to: one addition is a few hundred nanoseconds, and takes no lock.

The vendor's own counters take ten times as long, and a busy worker adds twice for every job. Added
to on the event loop, read from another thread: a reader may see a sum one step before its count.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.utils import floatToGoString

OTHER = "other"


class Histogram:
    """Counts values up to each of ``bounds``, which ascend."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Add one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Iterable[float]) -> None:
        """Add many."""
        bounds, counts = self._bounds, self._counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return each upper bound with how many values are not above it."""
        bounds = map(floatToGoString, (*self._bounds, math.inf))
        return list(zip(bounds, accumulate(map(float, self._counts)), strict=True))


class Durations:
    """Counts and sums of seconds by label values; never more than ``limit`` combinations.

    What comes after those goes into combinations whose first label is ``other``: the second one
    has few values. So nobody can make a program grow by calling it in ever new ways.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sums: dict[tuple[str, ...], list[float]] = {}

    def add(self, labels: tuple[str, ...], seconds: float) -> None:
        """Add one duration."""
        entry = self._sums.get(labels) or self._entry(labels)
        entry[0] += 1
        entry[1] += seconds

    def items(self) -> Iterator[tuple[tuple[str, ...], float, float]]:
        """Yield label values, count and sum."""
        for labels, (count, total) in list(self._sums.items()):
            yield labels, count, total

    def _entry(self, labels: tuple[str, ...]) -> list[float]:
        full = len(self._sums) >= self._limit
        key = (OTHER, *labels[1:]) if full else labels
        return self._sums.setdefault(key, [0.0, 0.0])
