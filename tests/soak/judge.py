"""Decides whether what was measured again and again grows.

The first fifth of a run is warm-up. The median of the last fifth is compared with that of the
second: half of the looks of a fifth may be wild without changing either, and whatever leaks during
the rest of the run shows in the last. What grows with each job by design is judged by its price:
how much of it a job costs in the last fifth and in the second.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Place = tuple[str, str]
"""Of whom, and what is measured."""

LEAST_LOOKS = 5
"""In a fifth; of fewer there is no middle that one look could not move."""
_FIFTHS = 5


class TooShort(Exception):
    """There is not enough to judge."""


@dataclass(frozen=True, slots=True)
class Look:
    """Everything at one moment; ``jobs`` counts from the beginning."""

    at: float
    jobs: int
    values: Mapping[Place, float]


@dataclass(frozen=True, slots=True)
class Bound:
    """How much more than early is still flat: a share of it, and ``slack`` in its own unit.

    ``per_job``: the measure only grows, and a job's share of it is what must be flat.
    """

    unit: str
    share: float
    slack: float
    per_job: bool = False

    def most(self, early: float) -> float:
        """Return the highest value that is flat."""
        return early * (1 + self.share) + self.slack


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one measure."""

    place: Place
    bound: Bound
    early: float
    late: float

    @property
    def grows(self) -> bool:
        """Whether it is more than flat."""
        return self.late > self.bound.most(self.early)


def judge(looks: Sequence[Look], bounds: Mapping[str, Bound]) -> list[Verdict]:
    """Judge every place that any look has; who is not there at a look has nothing then.

    Raises TooShort, and KeyError for a measure without a bound.
    """
    fifths = _fifths(looks)
    places = sorted({place for look in looks for place in look.values})
    return [_judged(place, bounds[place[1]], fifths) for place in places]


def _fifths(looks: Sequence[Look]) -> list[Sequence[Look]]:
    """Cut by time, not by count: a busy machine looks less often."""
    first, last = (looks[0].at, looks[-1].at) if looks else (0.0, 0.0)
    length = (last - first) / _FIFTHS or 1.0
    fifths: list[list[Look]] = [[] for _ in range(_FIFTHS)]
    for look in looks:
        fifths[min(int((look.at - first) / length), _FIFTHS - 1)].append(look)
    if any(len(fifth) < LEAST_LOOKS for fifth in fifths):
        raise TooShort(f"{len(looks)} looks are not {LEAST_LOOKS} in each fifth of the time")
    return [*fifths]


def _judged(place: Place, bound: Bound, fifths: Sequence[Sequence[Look]]) -> Verdict:
    early, late = fifths[1], fifths[-1]
    if bound.per_job:
        return Verdict(place, bound, _price(place, early), _price(place, late))
    return Verdict(place, bound, _middle(place, early), _middle(place, late))


def _middle(place: Place, looks: Sequence[Look]) -> float:
    return statistics.median(look.values.get(place, 0.0) for look in looks)


def _price(place: Place, looks: Sequence[Look]) -> float:
    """Return the median over pairs of looks half a fifth apart: one leap moves few of them."""
    prices = list(_prices(place, looks))
    if not prices:
        raise TooShort("no job was done in a fifth of the time")
    return statistics.median(prices)


def _prices(place: Place, looks: Sequence[Look]) -> Iterator[float]:
    half = len(looks) // 2
    for before, after in zip(looks, looks[half:], strict=False):
        jobs = after.jobs - before.jobs
        if jobs:
            yield (after.values.get(place, 0.0) - before.values.get(place, 0.0)) / jobs
