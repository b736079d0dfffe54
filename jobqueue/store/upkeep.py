"""Statements that time calls for: promotion, TTL, retention, partitions, figures."""

import math
from collections import Counter
from dataclasses import dataclass

from jobqueue.store.faults import translated
from jobqueue.store.pool import SWEEP_TIMEOUT_S, WEEK_TIMEOUT_S, Connection, Db, transaction
from jobqueue.store.statements import statement

_PROMOTE = statement("promote_jobs")
_EXPIRE = statement("expire_jobs")
_PRUNE = statement("prune_jobs")
_ENSURE_PARTITIONS = statement("ensure_partitions")
_EVENTS_HAVE_ROOM = statement("events_have_room")
_LOCK_EVENTS = statement("lock_event_upkeep")
_SEAL_PARTITION = statement("seal_partition")
_OLD_PARTITIONS = statement("list_old_partitions")
_KEEP_EVENTS = statement("keep_events")
_FORGET_KEPT = statement("forget_kept_events")
_LOCK_STATS = statement("lock_stats_cursor")
_ROLL_STATS = statement("roll_stats")
_LOCK_DEPTHS = statement("lock_depths")
_RECOUNT_STATS = statement("recount_stats")
_PRUNE_MINUTES = statement("prune_minutes")
_FORGET_REMOVED = statement("forget_removed_jobs")

ROLL_EVENTS = 500_000
"""What one roll of the figures counts at most, about: a statement of a second."""


@dataclass(frozen=True, slots=True)
class PromotedQueue:
    """How many jobs of a queue became ready; of these ``failed`` were FAILED before.

    The latest of them had been due for ``overdue_s`` seconds.
    """

    name: str
    count: int
    failed: int
    paused: bool
    overdue_s: float


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one promotion did, by queue."""

    by_queue: tuple[PromotedQueue, ...]

    @property
    def count(self) -> int:
        """How many jobs became ready."""
        return sum(queue.count for queue in self.by_queue)

    @property
    def overdue_s(self) -> float:
        """For how many seconds the latest of them had been due; infinite for none."""
        return min((queue.overdue_s for queue in self.by_queue), default=math.inf)

    @property
    def queues(self) -> frozenset[str]:
        """The unpaused queues in which they did."""
        return frozenset(queue.name for queue in self.by_queue if not queue.paused)


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many jobs a page removed, and after which job the next page begins (None: the end).

    ``young``: that job was created less than the retention ago.
    """

    removed: int
    next_job: int | None
    young: bool


async def promote_jobs(db: Db, limit: int, *, within_s: float | None = None) -> Promoted:
    """Make due jobs ready, at most ``limit``, the longest due first.

    With ``within_s`` none that has been due for more seconds.
    """
    return Promoted(
        tuple(
            PromotedQueue(r["queue"], r["count"], r["failed"], r["paused"], r["overdue_s"])
            for r in await db.fetch(_PROMOTE, limit, within_s)
        )
    )


async def expire_jobs(db: Db, limit: int) -> Counter[str]:
    """Dead-letter jobs whose TTL ended before they ever started, at most ``limit`` a table.

    Returns how many of which queue.
    """
    return Counter({row["queue"]: row["count"] for row in await db.fetch(_EXPIRE, limit)})


async def prune_jobs(db: Db, *, after: int, retention_s: float, limit: int) -> Pruned:
    """Remove DONE jobs older than ``retention_s`` from the ``limit`` finished ones after a job."""
    row = await db.fetchrow(_PRUNE, after, retention_s, limit)
    assert row is not None
    return Pruned(row["removed"], row["next_job"], row["young"])


async def ensure_partitions(db: Db, weeks_ahead: int = 3) -> int:
    """Make this week's partition of events and the next ones; return how many were new."""
    created: int = await db.fetchval(_ENSURE_PARTITIONS, weeks_ahead, timeout=SWEEP_TIMEOUT_S)
    return created


async def events_have_room(db: Db) -> bool:
    """Tell whether an event of a day from now would have a partition."""
    with translated():
        found: bool = await db.fetchval(_EVENTS_HAVE_ROOM)
    return found


async def lock_event_upkeep(db: Db) -> bool:
    """Take the right to seal and drop partitions for this transaction; False: another has it.

    The work itself belongs on another connection.
    """
    locked: bool = await db.fetchval(_LOCK_EVENTS)
    return locked


async def seal_partitions(db: Db) -> int:
    """Index the partitions that take no more rows, each for good; return how many."""
    sealed = 0
    while await db.fetchval(_SEAL_PARTITION, timeout=WEEK_TIMEOUT_S):
        sealed += 1
    return sealed


async def drop_partitions(connection: Connection, retention_s: float) -> list[str]:
    """Drop partitions of events older than ``retention_s`` that every consumer has passed.

    The events of jobs that still exist are kept before, so that no reader misses one. Detaching
    does not stop writers, but needs a connection outside any transaction. An interrupted run goes
    on at the next call. Returns their names.
    """
    found = await connection.fetch(_OLD_PARTITIONS, retention_s)
    for row in found:
        if row["attached"]:
            await connection.fetchval(_KEEP_EVENTS, row["name"], timeout=WEEK_TIMEOUT_S)
            await connection.execute(row["detach"], timeout=SWEEP_TIMEOUT_S)
        async with transaction(connection):
            await connection.fetchval(_KEEP_EVENTS, row["name"], timeout=WEEK_TIMEOUT_S)
            await connection.execute(row["drop"], timeout=SWEEP_TIMEOUT_S)
    return [row["name"] for row in found]


async def forget_kept_events(db: Db, page_jobs: int = 10_000) -> int:
    """Remove kept events of jobs that are gone, a page of jobs at a time; return how many."""
    return await _forget(db, _FORGET_KEPT, page_jobs)


async def roll_stats(connection: Connection, most_events: int = ROLL_EVENTS) -> int | None:
    """Count new events into the figures of the queues; None when another server does it now.

    Returns how many; when there are more than ``most_events`` or so, as many are left for later.
    In another cluster than before it counts all jobs instead, which may take minutes.
    """
    async with transaction(connection):
        cursor = await connection.fetchrow(_LOCK_STATS)
        if cursor is None:
            return None
        if not cursor["valid"]:
            await connection.execute(_LOCK_DEPTHS)
            await connection.execute(_RECOUNT_STATS, timeout=SWEEP_TIMEOUT_S)
            return 0
        events: int = await connection.fetchval(_ROLL_STATS, most_events)
        return events


async def prune_minutes(db: Db, age_s: float) -> int:
    """Forget per-minute figures older than ``age_s`` seconds; return how many."""
    pruned: int = await db.fetchval(_PRUNE_MINUTES, age_s, timeout=SWEEP_TIMEOUT_S)
    return pruned


async def forget_removed_jobs(db: Db, page_jobs: int = 10_000) -> int:
    """Forget removed jobs whose last event every consumer has passed; return how many.

    A page at a time, each for good: after a long outage of a consumer there are millions.
    """
    return await _forget(db, _FORGET_REMOVED, page_jobs)


async def _forget(db: Db, page: str, page_jobs: int) -> int:
    """Walk jobs by id with a statement that looks at a page of them."""
    forgotten = 0
    after: int | None = 0
    while after is not None:
        row = await db.fetchrow(page, after, page_jobs, timeout=SWEEP_TIMEOUT_S)
        assert row is not None, "the statement returns one row"
        forgotten, after = forgotten + row["forgotten"], row["upto"]
    return forgotten
