"""What becomes due with time: retries, delayed jobs, the end of a TTL (R-3.8, R-3.11, R-4.11)."""

from jobqueue.reaper.duty import Duty
from jobqueue.store.pool import Pool
from jobqueue.store.upkeep import expire_jobs, promote_jobs


class Promoter(Duty):
    """Makes due jobs claimable, a batch a turn, at once again while batches are full."""

    def __init__(self, pool: Pool, *, interval_s: float = 0.5, batch_size: int = 100) -> None:
        super().__init__("scheduler-promotion", pool, interval_s=interval_s)
        self._batch_size = batch_size

    async def act(self) -> float | None:
        """Promote a batch and wake the workers of its queues."""
        promoted = await self.work(lambda c: promote_jobs(c, self._batch_size))
        await self.announce(promoted.queues)
        return 0.0 if promoted.count >= self._batch_size else None


class TtlExpirer(Duty):
    """Dead-letters jobs whose TTL ended before they started, also in paused queues."""

    def __init__(self, pool: Pool, *, interval_s: float = 0.5, batch_size: int = 100) -> None:
        super().__init__("scheduler-ttl", pool, interval_s=interval_s)
        self._batch_size = batch_size

    async def act(self) -> float | None:
        """Expire a batch."""
        count = await self.work(lambda c: expire_jobs(c, self._batch_size))
        return 0.0 if count >= self._batch_size else None
