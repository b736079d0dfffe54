"""Statements that read figures of the system as a whole, for metrics."""

from collections.abc import Mapping

from jobqueue.store.pool import Db
from jobqueue.store.statements import statement

_COUNT_READY = statement("count_ready")
_COUNT_DELAYED = statement("count_delayed")
_COUNT_WORKERS = statement("count_active_workers")
_OLDEST_XMIN = statement("read_oldest_xmin")


async def count_ready(db: Db, most: int) -> Mapping[str, int]:
    """Return by queue how many jobs may be claimed now, counting up to ``most`` of each."""
    return {row["queue"]: row["count"] for row in await db.fetch(_COUNT_READY, most)}


async def count_delayed(db: Db, most: int) -> Mapping[str, int] | None:
    """Return by queue how many PENDING jobs wait for their time.

    None when ``most`` or more jobs wait for a time, delayed or FAILED, in all queues together.
    """
    found = await db.fetch(_COUNT_DELAYED, most)
    if sum(row["waiting"] for row in found) >= most:
        return None
    return {row["queue"]: row["delayed"] for row in found}


async def count_active_workers(db: Db) -> int:
    """Return how many workers are ACTIVE."""
    count: int = await db.fetchval(_COUNT_WORKERS)
    return count


async def read_oldest_xmin(db: Db) -> float:
    """Return the age in seconds of the oldest transaction that keeps dead rows; 0: there is none.

    Sessions of other roles are seen only by members of pg_read_all_stats.
    """
    age_s: float = await db.fetchval(_OLDEST_XMIN)
    return age_s
