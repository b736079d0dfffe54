"""Where the jobs of each queue and priority begin, so that a claim need not look before that.

A claim reads its index from the oldest entry on. Entries of jobs long taken are removed by vacuum,
but not while some transaction's snapshot is older: a report, a dump, a forgotten session. After
half an hour at 500 jobs/s a claim would step over 900,000 of them, in 0.2 s. As jobs become ready
in the order of time, what was taken last tells where to begin.

A job may still come to lie before the frontier: it was handed back, its transaction committed late,
its claim was rolled back, the server that should have promoted it was killed. So from time to time
a claim looks at everything, and again at once as long as it finds something there. That is every
claim where it costs little, which is the normal state, and else a sixtieth of this worker's time on
the database. In between, as large a share goes to looks that begin a little before the frontier,
where most late jobs are (docs/adr/0016).

As long as a worker has free slots, a job that comes up to 1 s late is visited by a claim that it
sends at most 1 s later, and any other by one that it sends at most 10 s later.
"""

from collections.abc import Sequence
from dataclasses import replace

from jobqueue.domain.lease import LeasedJob
from jobqueue.runtime.clock import Clock
from jobqueue.runtime.looks import Looks
from jobqueue.store.leases import Probe

SLACK_S = 2.0
"""How far before the frontier a wide look begins. It meets what came up to a second less late: a
promotion, as long as a server lives. The frontier goes on between two wide looks."""

NARROW_S = 0.2
"""How far a narrow one does: nearly every job becomes visible sooner, with a commit."""

CHEAP_S, CHEAP_JOB_S = 0.003, 0.00005
"""A claim that looked at everything within this, and this for each job, found little in its way."""

WIDE_EVERY_S = SLACK_S / 2
"""After so long at most a look is wide."""

_Place = tuple[str, int]


class Frontier:
    """What one worker knows of the places it claims from. Times are of its own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begins: dict[_Place, float] = {}
        self._whole = Looks(clock)
        self._wide = Looks(clock, longest_s=WIDE_EVERY_S)
        self._slack_s = SLACK_S

    def forget(self) -> None:
        """Look at everything with the next claim: what we know may be wrong."""
        self._begins.clear()
        self._whole.hurry()

    def bound(self, probes: Sequence[Probe]) -> Sequence[Probe]:
        """Return the probes for a claim that begins now."""
        if not self._whole.wait_s:
            return probes
        now = self._clock.monotonic()
        self._slack_s = NARROW_S if self._wide.wait_s else SLACK_S
        return [replace(probe, within_s=self._age(probe, now)) for probe in probes]

    def note(
        self, probes: Sequence[Probe], n: int, jobs: Sequence[LeasedJob], begun_at: float
    ) -> None:
        """Take in what a claim of ``n`` jobs brought that visited ``probes`` and ends now."""
        whole = not any(probe.within_s for probe in probes)
        behind = self._advance(_emptied(probes, n, jobs), jobs, begun_at)
        took_s = self._clock.monotonic() - begun_at
        if whole:
            self._whole.note(took_s, usual_s=CHEAP_S + CHEAP_JOB_S * len(jobs))
            if behind > SLACK_S:
                self._whole.hurry()
        elif self._slack_s == SLACK_S:
            self._wide.note(took_s)
            if behind > NARROW_S:
                self._wide.hurry()

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
