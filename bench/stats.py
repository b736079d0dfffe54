"""Numbers about numbers."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of several runs, and how far they lie apart."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Sum up at least one value."""
        return cls(statistics.median(values), min(values), max(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least ``percent`` of all do not exceed; NaN of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


def percentiles(values: Sequence[float], *, scale: float = 1.0) -> dict[str, float]:
    """Return p50, p95, p99 and max, each times ``scale``."""
    found = {f"p{percent}": percentile(values, percent) for percent in (50, 95, 99)}
    return {name: value * scale for name, value in (found | {"max": max(values)}).items()}
