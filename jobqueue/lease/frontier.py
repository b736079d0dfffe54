"""Where the jobs of each queue and priority begin, so that a claim need not look before that.

A claim reads its index from the oldest entry on. Entries of jobs long taken are removed by vacuum,
but not while some transaction's snapshot is older: a report, a dump, a forgotten session. After
half an hour at 500 jobs/s a claim would step over 900,000 of them, in 0.2 s. As jobs become ready
in the order of time, what was taken last tells where to begin.

A job may still come to lie before the frontier: it was handed back, its transaction committed late,
its claim was rolled back. So from time to time a claim looks at everything, and again at once as
long as it finds something there. That is every claim where it costs little, which is the
normal state, and else a sixtieth of this worker's time on the database. In between, as large a
share goes to looks that begin a little before the frontier, where most late jobs are
(docs/adr/0016).
"""

from collections.abc import Sequence
from dataclasses import replace

from jobqueue.domain.lease import LeasedJob
from jobqueue.runtime.clock import Clock
from jobqueue.store.leases import Probe

SLACK_S = 2.0
"""How much later than its ``ready_at`` a job becomes visible at most: a promotion."""

NARROW_S = 0.2
"""How much later nearly every job does: a commit."""

CHEAP_S, CHEAP_JOB_S = 0.003, 0.00005
"""A claim that looked at everything within this, and this for each job, found little in its way."""

SHARE = 60
"""A wide look is followed by as many times its duration of narrower ones."""

_LONGEST_S = 30.0
_GROWTH = 2
"""What a look cost is believed up to so many times what the last one did: dead entries come one by
one, and it was a handler that held up this process while the claim was answered."""

_Place = tuple[str, int]


class Frontier:
    """What one worker knows of the places it claims from. Times are of its own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begins: dict[_Place, float] = {}
        self._whole_from = 0.0
        self._whole_cost = CHEAP_S
        self._wide_from = 0.0
        self._slack_s = SLACK_S

    def forget(self) -> None:
        """Look at everything with the next claim: what we know may be wrong."""
        self._begins.clear()
        self._whole_from = 0.0

    def bound(self, probes: Sequence[Probe]) -> Sequence[Probe]:
        """Return the probes for a claim that begins now."""
        now = self._clock.monotonic()
        if now >= self._whole_from:
            return probes
        self._slack_s = SLACK_S if now >= self._wide_from else NARROW_S
        return [replace(probe, within_s=self._age(probe, now)) for probe in probes]

    def note(
        self, probes: Sequence[Probe], n: int, jobs: Sequence[LeasedJob], begun_at: float
    ) -> None:
        """Take in what a claim of ``n`` jobs brought that visited ``probes`` and ends now."""
        whole = not any(probe.within_s for probe in probes)
        behind = self._advance(_emptied(probes, n, jobs), jobs, begun_at)
        now = self._clock.monotonic()
        cost = now - begun_at
        if whole:
            cheap = cost < CHEAP_S + CHEAP_JOB_S * len(jobs)
            self._whole_cost = min(cost, _GROWTH * max(self._whole_cost, CHEAP_S))
            rest = 0.0 if cheap or behind > SLACK_S else self._whole_cost * SHARE
            self._whole_from = now + min(rest, _LONGEST_S)
        elif self._slack_s == SLACK_S:
            rest = 0.0 if behind > NARROW_S else cost * SHARE
            self._wide_from = now + min(rest, SLACK_S / 2)

    def _age(self, probe: Probe, now: float) -> float | None:
        begins = self._begins.get((probe.queue, probe.priority))
        return None if begins is None else now - begins + self._slack_s

    def _advance(
        self, emptied: Sequence[_Place], jobs: Sequence[LeasedJob], begun_at: float
    ) -> float:
        """Move the frontier; return how far before it more jobs may lie, in seconds.

        A place gives its jobs in the order of their times. Where the newest that it gave lies
        behind the frontier, it gave all that were before it.
        """
        known = dict(self._begins)
        self._begins.update(dict.fromkeys(emptied, begun_at))
        # The statement ran later than we sent it, so these times are too early, never too late.
        # Those of one place come in the order of time.
        newest = {(job.queue, job.priority): begun_at - job.waited_s for job in jobs}
        for place, ready_at in newest.items():
            self._begins[place] = max(ready_at, known.get(place, ready_at))
        return max((known.get(place, at) - at for place, at in newest.items()), default=0.0)


def _emptied(probes: Sequence[Probe], n: int, jobs: Sequence[LeasedJob]) -> list[_Place]:
    """Return the places that were visited and had no job, in the order of a claim."""
    visited = [(probe.queue, probe.priority) for probe in probes]
    if len(jobs) >= n:
        visited = visited[: visited.index((jobs[-1].queue, jobs[-1].priority))]
    gave = {(job.queue, job.priority) for job in jobs}
    return [place for place in visited if place not in gave]
