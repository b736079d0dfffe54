"""What becomes due with time: retries, delayed jobs, the end of a TTL (R-3.8, R-3.11, R-4.11)."""

import math
import time

from jobqueue.domain.state import JobStatus, Reason
from jobqueue.reaper.duty import Duty
from jobqueue.reaper.signals import JOBS_PROMOTED, SCHEDULER_CYCLE
from jobqueue.runtime.looks import Looks
from jobqueue.store.pool import Pool
from jobqueue.store.signals import tell_moved
from jobqueue.store.upkeep import Promoted, expire_jobs, promote_jobs

SLACK_S = 2.0
"""How far before what was promoted last a look begins that does not look at everything."""

CHEAP_S, CHEAP_JOB_S = 0.01, 0.0002
"""A batch that looked at everything within this, and this for each job, found little in its way."""


class Promoter(Duty):
    """Makes due jobs claimable, a batch a turn, at once again while batches are full.

    An open transaction keeps the entries of all that was promoted since, and a look at everything
    reads them. While that is dear, most turns begin a little before what was promoted last, as
    claims do (docs/adr/0016): what a commit that took seconds puts before that waits up to 10 s.
    """

    def __init__(self, pool: Pool, *, interval_s: float = 0.5, batch_size: int = 100) -> None:
        super().__init__("scheduler-promotion", pool, interval_s=interval_s)
        self._batch_size = batch_size
        self._whole = Looks()
        self._begins = -math.inf

    async def act(self) -> float | None:
        """Promote a batch and wake the workers of its queues."""
        begun = time.monotonic()
        promoted = await self._promote(begun)
        _tell(promoted)
        await self.announce(promoted.queues)
        SCHEDULER_CYCLE.emit(time.monotonic() - begun)
        return 0.0 if promoted.count >= self._batch_size else None

    async def _promote(self, begun: float) -> Promoted:
        """Promote a batch by a statement that is sent at ``begun`` or later."""
        begins, self._begins = self._begins, -math.inf  # after an error everything is looked at
        whole = self._whole.wait_s <= 0 or not math.isfinite(begins)
        within_s = None if whole else begun - begins + SLACK_S
        promoted, took_s = await self.timed(
            lambda c: promote_jobs(c, self._batch_size, within_s=within_s)
        )
        if whole:
            self._whole.note(took_s, usual_s=CHEAP_S + CHEAP_JOB_S * promoted.count)
        full = promoted.count >= self._batch_size
        self._begins = max(begins, begun - promoted.overdue_s) if full else begun
        return promoted


class TtlExpirer(Duty):
    """Dead-letters jobs whose TTL ended before they started, also in paused queues."""

    def __init__(self, pool: Pool, *, interval_s: float = 0.5, batch_size: int = 100) -> None:
        super().__init__("scheduler-ttl", pool, interval_s=interval_s)
        self._batch_size = batch_size

    async def act(self) -> float | None:
        """Expire a batch; less often where a look is dear, which an open transaction makes it."""
        expired, took_s = await self.timed(lambda c: expire_jobs(c, self._batch_size))
        tell_moved(expired, JobStatus.DEAD_LETTERED, Reason.TTL_EXPIRED)
        return 0.0 if expired.total() >= self._batch_size else self.sparing(took_s)


def _tell(promoted: Promoted) -> None:
    """Say what became ready; of that only a job that had FAILED made a transition."""
    failed = {queue.name: queue.failed for queue in promoted.by_queue}
    tell_moved(failed, JobStatus.PENDING, Reason.RETRY_DUE)
    if promoted.count:
        JOBS_PROMOTED.emit({queue.name: queue.count for queue in promoted.by_queue})
