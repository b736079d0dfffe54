"""What keeps the tables small and the figures true (R-3.7, R-3.17, R-4.5, R-5.1, R-5.2).

Nothing here ends or starts a job but the cancelling of jobs whose queue was deleted.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jobqueue.domain.state import JobStatus, Reason
from jobqueue.reaper.duty import Duty
from jobqueue.runtime.service import Unfinished
from jobqueue.store.faults import connection_lost, out_of_time
from jobqueue.store.pool import SWEEP_TIMEOUT_S, WEEK_TIMEOUT_S, Connection, Pool, transaction
from jobqueue.store.queues import cancel_queue_jobs
from jobqueue.store.signals import tell_moved
from jobqueue.store.upkeep import (
    ROLL_EVENTS,
    drop_partitions,
    ensure_partitions,
    forget_kept_events,
    forget_removed_jobs,
    lock_event_upkeep,
    prune_jobs,
    prune_minutes,
    roll_stats,
    seal_partitions,
)
from jobqueue.store.workers import mark_offline_workers, prune_worker_names, prune_workers

_MINUTE_S, _HOUR_S = 60.0, 3_600.0
_OFFLINE_KEPT_S = 86_400.0
_MINUTES_KEPT_S = 7 * 86_400.0
_WHOLE_WALK_S = 86_400.0


class WorkerUpkeep(Duty):
    """Shows silent workers as OFFLINE and removes those that stay so."""

    def __init__(self, pool: Pool, *, heartbeat_timeout_s: float = 30.0) -> None:
        super().__init__("upkeep-workers", pool, interval_s=min(heartbeat_timeout_s / 4, 5.0))
        self._heartbeat_timeout_s = heartbeat_timeout_s

    async def act(self) -> None:
        """Mark and prune."""
        await self.work(lambda c: mark_offline_workers(c, self._heartbeat_timeout_s))
        await self.work(lambda c: prune_workers(c, _OFFLINE_KEPT_S))


class JobPruner(Duty):
    """Removes DONE jobs after their retention: a page a turn, walking ``finished`` by key.

    After the last page it rests for ``interval_s`` and begins again at the first. Behind a job
    that is too young all are, so a walk ends there; once a day one goes to the very end, for
    clocks that were wrong.
    """

    def __init__(
        self, pool: Pool, *, retention_s: float, interval_s: float = 60.0, batch_size: int = 1_000
    ) -> None:
        super().__init__("upkeep-jobs", pool, interval_s=interval_s)
        self._retention_s = retention_s
        self._batch_size = batch_size
        self._after = 0
        self._whole_at = float("-inf")

    async def act(self) -> float | None:
        """Prune one page."""
        pruned = await self.work(
            lambda c: prune_jobs(
                c, after=self._after, retention_s=self._retention_s, limit=self._batch_size
            )
        )
        now = self._clock.monotonic()
        if pruned.next_job is None:
            self._whole_at = now
        if pruned.next_job is None or (pruned.young and now - self._whole_at < _WHOLE_WALK_S):
            self._after = 0
            return None
        self._after = pruned.next_job
        return 0.0


class DeletedQueues(Duty):
    """Cancels what is left in, or slips into, queues that were deleted."""

    def __init__(self, pool: Pool, *, interval_s: float = 1.0, batch_size: int = 500) -> None:
        super().__init__("upkeep-queues", pool, interval_s=interval_s)
        self._batch_size = batch_size

    async def act(self) -> float | None:
        """Cancel a batch."""
        moved, took_s = await self.timed(lambda c: cancel_queue_jobs(c, self._batch_size))
        tell_moved(moved.cancelled, JobStatus.DEAD_LETTERED, Reason.CANCELLED)
        if moved.count >= self._batch_size:
            return 0.0
        return None if moved.count else self.sparing(took_s)


class StatsRoller(Duty):
    """Counts new events into the figures of the queues; one server at a time does.

    A turn may take minutes: the first one in another cluster reads all jobs, from a cold disk.
    """

    def __init__(self, pool: Pool, *, interval_s: float = 1.0) -> None:
        super().__init__("upkeep-stats", pool, interval_s=interval_s, timeout_s=SWEEP_TIMEOUT_S)

    async def act(self) -> float | None:
        """Roll forward; after a long pause of all servers, in steps."""
        events = await self.work(roll_stats)
        return 0.0 if events is not None and events >= ROLL_EVENTS else None


@dataclass(frozen=True, slots=True)
class _Step:
    """A part of tidying up, and the seconds that it may take."""

    name: str
    act: Callable[[Connection], Awaitable[object]]
    within_s: float = SWEEP_TIMEOUT_S


def _steps(retention_s: float) -> tuple[_Step, ...]:
    """Return the steps in their order: first what makes room, last what takes it."""
    return (
        _Step("drop partitions", lambda c: drop_partitions(c, retention_s), WEEK_TIMEOUT_S),
        _Step("forget kept events", forget_kept_events),
        _Step("forget removed jobs", forget_removed_jobs),
        _Step("prune minutes", lambda c: prune_minutes(c, _MINUTES_KEPT_S)),
        _Step("prune names of workers", prune_worker_names),
        _Step("seal partitions", seal_partitions, WEEK_TIMEOUT_S),
    )


class EventRoom(Duty):
    """Makes the partitions of events ahead of time.

    The first turn comes with the start: without this week's partition nothing can be written.
    ``wake`` it when one is missing that was there: an operator, or a clock that jumped, may do that
    at any time. So it is a loop of its own, and waits for no tidying.
    """

    def __init__(self, pool: Pool, *, interval_s: float = _MINUTE_S) -> None:
        super().__init__(
            "upkeep-partitions", pool, interval_s=interval_s, timeout_s=SWEEP_TIMEOUT_S
        )

    async def act(self) -> None:
        """Make what is missing."""
        await self.work(ensure_partitions)


class EventRetention(Duty):
    """Drops the partitions of events that are over, and what else was kept for them.

    A step that fails is told and keeps none of the others; it is tried again with the next usual
    turn, for it may have worked for hours. An outage ends the turn as any other.
    """

    def __init__(self, pool: Pool, *, retention_s: float, interval_s: float = _HOUR_S) -> None:
        self._steps = _steps(retention_s)
        tidy_s = sum(step.within_s for step in self._steps)
        super().__init__("upkeep-events", pool, interval_s=interval_s, timeout_s=tidy_s)

    async def act(self) -> None:
        """Tidy up unless another server does so now.

        Raises Unfinished when a step failed, Unavailable in an outage.
        """
        await self.work(self._tidy_alone)

    async def _tidy_alone(self, guard: Connection) -> None:
        async with transaction(guard):
            if await lock_event_upkeep(guard):
                await self._tidy()

    async def _tidy(self) -> None:
        failed = [step.name for step in self._steps if not await self._done(step)]
        if failed:
            raise Unfinished(", ".join(failed))

    async def _done(self, step: _Step) -> bool:
        try:
            await self.work(step.act, within_s=step.within_s)
        except Exception as error:
            cause = error.__cause__ or error
            if connection_lost(cause) and not out_of_time(cause):
                raise  # an outage: the others would meet it too, and it may be over in a moment
            self.tell(error, step=step.name)
            return False
        return True


def upkeep(pool: Pool, *, heartbeat_timeout_s: float, done_retention_s: float) -> tuple[Duty, ...]:
    """Return the loops of which one server's are enough. The retention is in seconds."""
    return (
        DeletedQueues(pool),
        WorkerUpkeep(pool, heartbeat_timeout_s=heartbeat_timeout_s),
        JobPruner(pool, retention_s=done_retention_s),
    )


def event_upkeep(pool: Pool, *, event_retention_s: float) -> tuple[Duty, ...]:
    """Return the loops that every server runs: PostgreSQL lets one at a time work (seconds)."""
    return (EventRetention(pool, retention_s=event_retention_s), StatsRoller(pool))
