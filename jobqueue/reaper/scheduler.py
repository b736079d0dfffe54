"""What becomes due with time: retries, delayed jobs, the end of a TTL (R-3.8, R-3.11, R-4.11)."""

import time

from jobqueue.domain.state import JobStatus, Reason
from jobqueue.reaper.duty import Duty
from jobqueue.reaper.signals import JOBS_PROMOTED, SCHEDULER_CYCLE
from jobqueue.store.pool import Pool
from jobqueue.store.signals import tell_moved
from jobqueue.store.upkeep import Promoted, expire_jobs, promote_jobs


class Promoter(Duty):
    """Makes due jobs claimable, a batch a turn, at once again while batches are full."""

    def __init__(self, pool: Pool, *, interval_s: float = 0.5, batch_size: int = 100) -> None:
        super().__init__("scheduler-promotion", pool, interval_s=interval_s)
        self._batch_size = batch_size

    async def act(self) -> float | None:
        """Promote a batch and wake the workers of its queues."""
        begun = time.monotonic()
        promoted = await self.work(lambda c: promote_jobs(c, self._batch_size))
        _tell(promoted)
        await self.announce(promoted.queues)
        SCHEDULER_CYCLE.emit(time.monotonic() - begun)
        return 0.0 if promoted.count >= self._batch_size else None


class TtlExpirer(Duty):
    """Dead-letters jobs whose TTL ended before they started, also in paused queues."""

    def __init__(self, pool: Pool, *, interval_s: float = 0.5, batch_size: int = 100) -> None:
        super().__init__("scheduler-ttl", pool, interval_s=interval_s)
        self._batch_size = batch_size

    async def act(self) -> float | None:
        """Expire a batch."""
        expired = await self.work(lambda c: expire_jobs(c, self._batch_size))
        tell_moved(expired, JobStatus.DEAD_LETTERED, Reason.TTL_EXPIRED)
        return 0.0 if expired.total() >= self._batch_size else None


def _tell(promoted: Promoted) -> None:
    """Say what became ready; of that only a job that had FAILED made a transition."""
    failed = {queue.name: queue.failed for queue in promoted.by_queue}
    tell_moved(failed, JobStatus.PENDING, Reason.RETRY_DUE)
    if promoted.count:
        JOBS_PROMOTED.emit({queue.name: queue.count for queue in promoted.by_queue})
