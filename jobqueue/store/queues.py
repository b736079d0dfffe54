"""Statements on queues and their figures."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobqueue.domain.queue import Queue, QueuePolicy, QueueStats
from jobqueue.store import rows
from jobqueue.store.pool import SWEEP_TIMEOUT_S, Db
from jobqueue.store.statements import statement

_SERVING = statement("list_queue_serving")
_CREATE = statement("create_queue")
_UPDATE = statement("update_queue")
_PAUSE = statement("pause_queue")
_LIST = statement("list_queues")
_GET_ID = statement("get_queue_id")
_DELETE = statement("delete_queue")
_COUNT_LIVE = statement("count_queue_live")
_OLDEST_LIVE = statement("find_oldest_live")
_CANCEL_JOBS = statement("cancel_queue_jobs")
_COUNT_CANCELLED = statement("count_queue_cancelled")
_STATS = statement("get_queue_stats")
_UNHANDLED = statement("list_unhandled")


@dataclass(frozen=True, slots=True)
class QueueServing:
    """How a queue is to be claimed from."""

    name: str
    priority_weights: Mapping[int, int]
    limited: bool
    paused: bool


async def list_queue_serving(db: Db, names: Sequence[str]) -> list[QueueServing]:
    """Return how these queues are to be served; unknown and deleted names are left out."""
    return [
        QueueServing(r["name"], rows.weights(r["priority_weights"]), r["limited"], r["paused"])
        for r in await db.fetch(_SERVING, names)
    ]


def _policy(policy: QueuePolicy) -> tuple[object, ...]:
    return (
        policy.max_retries,
        policy.ttl_s,
        policy.retry.base_delay_s,
        policy.retry.max_delay_s,
        policy.retry.multiplier,
        json.dumps({str(k): v for k, v in policy.priority_weights.items()}),
        policy.max_running,
    )


async def create_queue(db: Db, name: str, policy: QueuePolicy) -> Queue | None:
    """Make a queue; None when the name is taken."""
    row = await db.fetchrow(_CREATE, name, *_policy(policy))
    return rows.queue(row) if row else None


async def update_queue(db: Db, name: str, policy: QueuePolicy, read_at: datetime) -> Queue | None:
    """Set a policy; None when the queue changed since ``read_at`` (its updated_at) or is gone."""
    row = await db.fetchrow(_UPDATE, name, *_policy(policy), read_at)
    return rows.queue(row) if row else None


async def pause_queue(db: Db, name: str, *, paused: bool) -> Queue | None:
    """Stop or resume claims; None when there is no such queue."""
    row = await db.fetchrow(_PAUSE, name, paused)
    return rows.queue(row) if row else None


async def list_queues(db: Db, name: str | None = None) -> list[Queue]:
    """Return all queues by name, or the one named."""
    return [rows.queue(row) for row in await db.fetch(_LIST, name)]


async def get_queue_id(db: Db, name: str) -> int | None:
    """Return which queue has this name, None when none has; a name may be given again."""
    queue: int | None = await db.fetchval(_GET_ID, name)
    return queue


async def delete_queue(db: Db, queue: int, *, force: bool) -> bool:
    """Put a tombstone on a queue; unless forced only when it holds no live job.

    Returns whether it has one, now or since an earlier try.
    """
    return bool(await db.fetchval(_DELETE, queue, force))


async def count_queue_live(db: Db, queue: int, limit: int = 1) -> int:
    """Return how many jobs are not finished, counting up to ``limit`` of each table."""
    count: int = await db.fetchval(_COUNT_LIVE, queue, limit)
    return count


@dataclass(frozen=True, slots=True)
class QueueCancels:
    """How many jobs of which deleted queue were cancelled, and how many were asked to stop."""

    cancelled: Counter[str]
    asked: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.cancelled.total() + self.asked


async def cancel_queue_jobs(db: Db, limit: int) -> QueueCancels:
    """Cancel jobs of deleted queues, at most ``limit`` of each table."""
    found = await db.fetch(_CANCEL_JOBS, limit)
    cancelled = Counter({row["queue"]: row["cancelled"] for row in found})
    return QueueCancels(cancelled, sum(row["asked"] for row in found))


async def find_oldest_live(db: Db, queue: int) -> int | None:
    """Return the lowest id of a queue's jobs that are not finished, None when there is none."""
    oldest: int | None = await db.fetchval(_OLDEST_LIVE, queue)
    return oldest


async def count_queue_cancelled(db: Db, queue: int, oldest: int) -> int:
    """Return how many jobs of a deleted queue were cancelled since, those from id ``oldest`` on.

    All dead jobs of the queue from there on are read.
    """
    count: int = await db.fetchval(_COUNT_CANCELLED, queue, oldest, timeout=SWEEP_TIMEOUT_S)
    return count


async def get_queue_stats(db: Db, name: str | None, window_s: float) -> list[QueueStats]:
    """Return the figures of all queues by name, or of the one named."""
    found = await db.fetch(_STATS, name, window_s)
    return [rows.queue_stats(row, window_s) for row in found]


async def list_unhandled(db: Db) -> list[tuple[str, str | None, int]]:
    """Return (queue, type, how many) of jobs that wait because nobody has a handler."""
    return [(r["queue"], r["type"], r["count"]) for r in await db.fetch(_UNHANDLED)]
