"""Takes back the jobs of workers that are gone (R-4.5, R-4.6, R-4.11).

Reads nothing but the time of a lease: not the workers table, not handlers, not Redis. Any number
of servers may do this at once: a page skips what another has locked.
"""

from jobqueue.lease.takeover import Kind, Takeover, expired, unstarted
from jobqueue.reaper.duty import Duty
from jobqueue.store.pool import Pool

_UNSTARTED_INTERVAL_S = 5.0


class LeaseReaper(Duty):
    """One page a turn, at once again while pages are full, then the interval."""

    def __init__(
        self,
        name: str,
        pool: Pool,
        kind: Kind,
        *,
        interval_s: float,
        batch_size: int,
        crash_limit: int,
    ) -> None:
        super().__init__(name, pool, interval_s=interval_s)
        self._takeover = Takeover(kind, page_size=batch_size, crash_limit=crash_limit)

    async def act(self) -> float | None:
        """Take over one page and wake the workers that can claim its jobs."""
        page, took_s = await self.timed(self._takeover.step)
        await self.announce(page.ready)
        if not page.complete:
            return 0.0
        # What it took to end leases says nothing of what it costs to look for them.
        return None if page.taken else self.sparing(took_s)


def expirer(
    pool: Pool, *, interval_s: float = 1.0, batch_size: int = 500, crash_limit: int = 3
) -> LeaseReaper:
    """Return the loop that ends expired leases."""
    return LeaseReaper(
        "reaper-expired",
        pool,
        expired(),
        interval_s=interval_s,
        batch_size=batch_size,
        crash_limit=crash_limit,
    )


def assignment_timeout(
    pool: Pool, *, timeout_s: float = 60.0, batch_size: int = 500, crash_limit: int = 3
) -> LeaseReaper:
    """Return the loop that ends leases of jobs ASSIGNED for longer than ``timeout_s``."""
    return LeaseReaper(
        "reaper-unstarted",
        pool,
        unstarted(timeout_s),
        interval_s=min(_UNSTARTED_INTERVAL_S, max(timeout_s / 10, 0.1)),
        batch_size=batch_size,
        crash_limit=crash_limit,
    )
