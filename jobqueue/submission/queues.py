"""Administers queues (R-5.1, R-5.2)."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jobqueue.domain.limits import (
    Limits,
    check,
    name_faults,
    policy_faults,
    positive_faults,
)
from jobqueue.domain.queue import (
    DEFAULT_QUEUE,
    PolicyChange,
    Queue,
    QueuePolicy,
    QueueStats,
)
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    FieldViolation,
    NotFound,
)
from jobqueue.store import queues as store
from jobqueue.store.faults import retrying, retrying_told
from jobqueue.store.pool import Pool
from jobqueue.store.signals import tell_moved

MAX_WINDOW_S = 7 * 86_400.0
_UPDATE_TRIES = 20
_CANCEL_PAGE = 1_000
_CANCEL_PAUSE_S = 0.1


class Queues:
    """What can be asked of, and done with, queues.

    What was done though its answer was lost is told as done.
    """

    def __init__(
        self,
        pool: Pool,
        limits: Limits,
        defaults: QueuePolicy,
        announce: Callable[[Iterable[str]], None],
    ) -> None:
        """``defaults`` is the policy of a new queue that does not say otherwise."""
        self._pool = pool
        self._limits = limits
        self._defaults = defaults
        self._announce = announce

    async def ensure_default(self) -> None:
        """Make the queue ``default`` unless it exists."""
        await retrying(lambda: store.create_queue(self._pool, DEFAULT_QUEUE, self._defaults))

    async def create(self, name: str, change: PolicyChange) -> Queue:
        """Make a queue. Raises InvalidArgument, AlreadyExists."""
        policy = changed_policy(self._defaults, change, self._defaults)
        check([*name_faults("name", name, self._limits), *_faults(policy, self._limits)])
        taken = await self._find(name)
        made = await self._create(name, policy) if taken is None else None
        if made is None:
            raise AlreadyExists("queue", name, f"queue {name!r} exists already")
        return made

    async def _create(self, name: str, policy: QueuePolicy) -> Queue | None:
        """Make a queue that was not there; None when somebody else makes one of this name."""
        made, repeated = await retrying_told(lambda: store.create_queue(self._pool, name, policy))
        if made is not None or not repeated:
            return made
        # It is there since: by a try whose answer was lost, or by somebody who asked for the same.
        found = await self._find(name)
        return found if found is not None and found.policy == policy else None

    async def update(self, name: str, change: PolicyChange) -> Queue:
        """Set the fields that ``change`` names. Raises InvalidArgument, NotFound."""
        for _ in range(_UPDATE_TRIES):
            current = await self.get(name)
            policy = changed_policy(current.policy, change, self._defaults)
            check(_faults(policy, self._limits))
            updated = await self._update(current, policy)
            if updated is not None:
                self._announce([name])
                return updated
        raise Aborted(f"queue {name!r} keeps changing; try again")

    async def _update(self, read: Queue, policy: QueuePolicy) -> Queue | None:
        return await retrying(
            lambda: store.update_queue(self._pool, read.name, policy, read.updated_at)
        )

    async def get(self, name: str) -> Queue:
        """Return a queue. Raises NotFound."""
        found = await self._find(name)
        if found is None:
            raise NotFound("queue", name)
        return found

    async def _find(self, name: str) -> Queue | None:
        found = await retrying(lambda: store.list_queues(self._pool, name))
        return found[0] if found else None

    async def list(self) -> list[Queue]:
        """Return all queues by name."""
        return await retrying(lambda: store.list_queues(self._pool))

    async def pause(self, name: str) -> Queue:
        """Stop claims; a claim on its way may still win. Raises NotFound."""
        return await self._set_paused(name, paused=True)

    async def resume(self, name: str) -> Queue:
        """Let claims go on. Raises NotFound."""
        queue = await self._set_paused(name, paused=False)
        self._announce([name])
        return queue

    async def _set_paused(self, name: str, *, paused: bool) -> Queue:
        queue = await retrying(lambda: store.pause_queue(self._pool, name, paused=paused))
        if queue is None:
            raise NotFound("queue", name)
        return queue

    async def delete(self, name: str, *, force: bool) -> int:
        """Delete a queue and return how many of its jobs were cancelled for it.

        Raises NotFound; FailedPrecondition for ``default``, and for a queue with live jobs unless
        ``force``: then these are cancelled (running ones asked to stop) and this returns when none
        is left. Finished jobs stay readable.
        """
        if name == DEFAULT_QUEUE:
            raise FailedPrecondition(f"queue {name!r} cannot be deleted", reason="DEFAULT_QUEUE")
        queue = await retrying(lambda: store.get_queue_id(self._pool, name))
        if queue is None:
            raise NotFound("queue", name)
        oldest = await self._find_oldest_live(queue) if force else None
        # By its id: a try whose answer was lost may have freed the name for another queue.
        if not await retrying(lambda: store.delete_queue(self._pool, queue, force=force)):
            message = f"queue {name!r} has jobs that are not finished; force cancels them"
            raise FailedPrecondition(message, reason="QUEUE_NOT_EMPTY")
        late = await self._cancel_all(queue)
        if oldest is None and not late:
            return 0
        # Not what was moved here: the servers' own sweeps take part.
        return await retrying(lambda: store.count_queue_cancelled(self._pool, queue, oldest or 0))

    async def _find_oldest_live(self, queue: int) -> int | None:
        return await retrying(lambda: store.find_oldest_live(self._pool, queue))

    async def _cancel_all(self, queue: int) -> bool:
        """Return when no job of the queue is left, and whether there was any."""
        had_any = False
        while await retrying(lambda: store.count_queue_live(self._pool, queue)):
            had_any = True
            moved = await retrying(lambda: store.cancel_queue_jobs(self._pool, _CANCEL_PAGE))
            tell_moved(moved.cancelled, JobStatus.DEAD_LETTERED, Reason.CANCELLED)
            if not moved.count:
                await asyncio.sleep(_CANCEL_PAUSE_S)
        return had_any

    async def stats(self, name: str | None, window_s: float) -> Sequence[QueueStats]:
        """Return the figures of all queues or of one. Raises InvalidArgument, NotFound."""
        check(positive_faults("window", window_s, MAX_WINDOW_S))
        found = await retrying(lambda: store.get_queue_stats(self._pool, name, window_s))
        if name is not None and not found:
            raise NotFound("queue", name)
        return found


_RETRY_FIELDS = frozenset({"base_delay_s", "max_delay_s"})


def changed_policy(policy: QueuePolicy, change: PolicyChange, defaults: QueuePolicy) -> QueuePolicy:
    """Return ``policy`` with the fields of ``change``; one set to None takes its default.

    For ttl_s and max_running None means none, for priority_weights strict order.
    """
    fields: dict[str, Any] = dict(change.fields)
    cleared = {k for k, v in fields.items() if v is None}
    retry = {k: fields.pop(k) for k in _RETRY_FIELDS & fields.keys()}
    retry |= {k: getattr(defaults.retry, k) for k in cleared & _RETRY_FIELDS}
    if "max_retries" in cleared:
        fields["max_retries"] = defaults.max_retries
    if "priority_weights" in cleared:
        fields["priority_weights"] = {}
    return replace(policy, **fields, retry=replace(policy.retry, **retry))


def _faults(policy: QueuePolicy, limits: Limits) -> Iterator[FieldViolation]:
    fields = {
        "max_retries": policy.max_retries,
        "ttl_s": policy.ttl_s,
        "base_delay_s": policy.retry.base_delay_s,
        "max_delay_s": policy.retry.max_delay_s,
        "priority_weights": policy.priority_weights,
        "max_running": policy.max_running,
    }
    return policy_faults(fields, limits)
