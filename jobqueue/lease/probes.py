"""In which order one claim visits queues and priorities (R-3.15). Pure: chance is an argument.

A plan is a list of probes: (queue, priority, quota). The claim statement walks it until it has
enough jobs, so the order of the list is the order of service.

- Strict queues: all their 9s, then all their 8s, … down to 0. Within one priority the queues
  rotate from claim to claim.
- A queue with weights draws, for each claim, how many of the ``n`` jobs each priority may give
  (its quota), so that over many claims, of any size, jobs are shared in proportion to the
  weights. Its priorities with a quota are put in a drawn order; the first stands beside the 9s of
  the strict queues, the second beside their 8s, and so on: a queue whose point is that nothing
  starves competes as a whole, not by the number on its jobs.
- Quotas may point at priorities that are empty just now. So at the end of the list the weighted
  queues come again, in drawn order without quotas: no slot stays empty while they have a job.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobqueue.domain.queue import PRIORITIES, draw_order
from jobqueue.store.leases import Probe
from jobqueue.store.queues import QueueServing

Draw = Callable[[], float]
"""Returns a uniform number from [0, 1)."""


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """What this worker visits. ``types`` are the names it has handlers for."""

    types: frozenset[str]
    draw: Draw = random.random

    def probes(self, serving: Sequence[QueueServing], n: int, rotation: int) -> list[Probe]:
        """Return the probes of one claim of ``n`` jobs; ``rotation`` counts the claims."""
        queues = _rotated([q for q in serving if not q.paused], rotation)
        orders = {q.name: self._order(q, n) for q in queues}
        levels = (
            self._probe(queue.name, *orders[queue.name][rank])
            for rank in range(len(PRIORITIES))
            for queue in queues
            if rank < len(orders[queue.name])
        )
        fill = (
            self._probe(queue.name, priority, n, skip)
            for queue in queues
            if queue.priority_weights
            for priority, skip in self._seconds(queue, dict(orders[queue.name]))
        )
        return [*levels, *fill]

    def _order(self, queue: QueueServing, n: int) -> list[tuple[int, int]]:
        """Return (priority, quota) by rank."""
        if not queue.priority_weights:
            return [(priority, n) for priority in PRIORITIES]
        quotas = draw_quotas(queue.priority_weights, n, self.draw())
        drawn = draw_order(queue.priority_weights, self._draws())
        return [(priority, quotas[priority]) for priority in drawn if quotas[priority]]

    def _seconds(self, queue: QueueServing, quotas: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield (priority, how many its quota may have taken already) in drawn order."""
        for priority in draw_order(queue.priority_weights, self._draws()):
            yield priority, quotas.get(priority, 0)

    def _draws(self) -> list[float]:
        return [1.0 - self.draw() for _ in PRIORITIES]

    def _probe(self, queue: str, priority: int, quota: int, skip: int = 0) -> Probe:
        return Probe(queue, priority, quota, handles_untyped(self.types, queue), skip)


def handles_untyped(types: frozenset[str], queue: str) -> bool:
    """Tell whether a job without a type has a handler: one named like its queue, or default."""
    return queue in types or "default" in types


def draw_quotas(weights: Mapping[int, int], n: int, draw: float) -> dict[int, int]:
    """Share ``n`` among the ten priorities in proportion to their weights; unnamed ones weigh 1.

    Systematic sampling: every quota is its exact share rounded down or up, the sum is ``n``, and
    over uniform draws the mean of each quota is its exact share. So a claim of one job picks a
    priority with just the probability of its weight.
    """
    total = sum(weights.get(priority, 1) for priority in PRIORITIES)
    quotas, seen, given = {}, 0, 0
    for priority in PRIORITIES:
        seen += weights.get(priority, 1)
        upto = n if seen == total else int(n * seen / total + draw)
        quotas[priority] = min(upto, n) - given
        given = min(upto, n)
    return quotas


def _rotated(queues: list[QueueServing], rotation: int) -> list[QueueServing]:
    start = rotation % len(queues) if queues else 0
    return queues[start:] + queues[:start]
