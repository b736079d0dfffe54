"""Where the jobs of each queue and priority begin, so that a claim need not look before that.

A claim reads its index from the oldest entry on. Entries of jobs long taken are removed by vacuum,
but not while some transaction's snapshot is older: a report, a dump, a forgotten session. After
half an hour at 500 jobs/s a claim would step over 900,000 of them, in 0.2 s. As jobs become ready
in the order of time, what was taken last tells where to begin.

A job may still come to lie before the frontier: it was handed back, its transaction committed late,
its claim was rolled back. So from time to time a claim looks at everything, and again at once as
long as it finds something there. That is every claim where it costs little, which is the
normal state, and else a twentieth of this worker's time on the database, or once in 4 s
(docs/adr/0016).
"""

from collections.abc import Sequence
from dataclasses import replace

from jobqueue.domain.lease import LeasedJob
from jobqueue.runtime.clock import Clock
from jobqueue.store.leases import Probe

SLACK_S = 2.0
"""How much later than its ``ready_at`` a job may become visible: a commit, a promotion."""

CHEAP_S, CHEAP_JOB_S = 0.01, 0.0002
"""A claim that looked at everything within this, and this for each job, found little in its way."""

WHOLE_SHARE = 20
"""One look at everything is followed by as many times its duration of bounded ones."""

_LONGEST_S = 4.0
"""A handler that held up this process while the claim was answered made it look dear."""

_Place = tuple[str, int]


class Frontier:
    """What one worker knows of the places it claims from. Times are of its own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begins: dict[_Place, float] = {}
        self._whole_from = 0.0

    def forget(self) -> None:
        """Look at everything with the next claim: what we know may be wrong."""
        self._begins.clear()
        self._whole_from = 0.0

    def bound(self, probes: Sequence[Probe]) -> Sequence[Probe]:
        """Return the probes for a claim that begins now."""
        now = self._clock.monotonic()
        if now >= self._whole_from:
            return probes
        return [replace(probe, within_s=self._age(probe, now)) for probe in probes]

    def note(
        self, probes: Sequence[Probe], n: int, jobs: Sequence[LeasedJob], begun_at: float
    ) -> None:
        """Take in what a claim of ``n`` jobs brought that visited ``probes`` and ends now."""
        whole = not any(probe.within_s for probe in probes)
        behind = self._advance(_emptied(probes, n, jobs), jobs, begun_at)
        if whole:
            now = self._clock.monotonic()
            cost = now - begun_at
            cheap = cost < CHEAP_S + CHEAP_JOB_S * len(jobs)
            rest = 0.0 if behind or cheap else min(cost * WHOLE_SHARE, _LONGEST_S)
            self._whole_from = now + rest

    def _age(self, probe: Probe, now: float) -> float | None:
        begins = self._begins.get((probe.queue, probe.priority))
        return None if begins is None else now - begins + SLACK_S

    def _advance(
        self, emptied: Sequence[_Place], jobs: Sequence[LeasedJob], begun_at: float
    ) -> bool:
        """Move the frontier; return whether a job lay before it."""
        known = dict(self._begins)
        self._begins.update(dict.fromkeys(emptied, begun_at))
        # The statement ran later than we sent it, so these times are too early, never too late.
        times = [((job.queue, job.priority), begun_at - job.waited_s) for job in jobs]
        for place, ready_at in times:
            self._begins[place] = max(ready_at, known.get(place, ready_at))
        return any(at < known.get(place, at) - SLACK_S for place, at in times)


def _emptied(probes: Sequence[Probe], n: int, jobs: Sequence[LeasedJob]) -> list[_Place]:
    """Return the places that were visited and had no job, in the order of a claim."""
    visited = [(probe.queue, probe.priority) for probe in probes]
    if len(jobs) >= n:
        visited = visited[: visited.index((jobs[-1].queue, jobs[-1].priority))]
    gave = {(job.queue, job.priority) for job in jobs}
    return [place for place in visited if place not in gave]
