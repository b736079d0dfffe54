"""Takes jobs in. Single submissions that arrive while a flush is in flight share the next one.

Two lanes: a keyless item can wait for no row, a keyed one may wait for an application's
transaction that holds its key, and must not hold up the others. An item whose flush failed is
tried again alone, so that only the one at fault fails. However many callers wait for one held
key, one of them asks for it at a time, and none keeps a connection while it waits. Explicit
batches are never merged with strangers: they are all or none.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

from jobqueue.domain.content import derived_job_id
from jobqueue.domain.job import JobSpec, Submitted
from jobqueue.domain.limits import Limits, check, check_batch, spec_faults
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.errors import (
    Aborted,
    AlreadyExists,
    FieldViolation,
    InvalidArgument,
    JobQueueError,
    NotFound,
    Unavailable,
)
from jobqueue.runtime.batcher import Batcher
from jobqueue.store.faults import rejected_item, retrying_told
from jobqueue.store.jobs import Stored, submit_jobs
from jobqueue.store.pool import Connection, Db, Pool, limit_lock_waits
from jobqueue.store.signals import tell_moved

MAX_FLUSH = 500
KEYED_LOCK_WAIT_S = 0.05
"""A statement gives up on a held key this soon, so that no connection waits with the caller."""

_HELD_FIRST_S, _HELD_LAST_S = 0.02, 0.5
"""A held key is asked for again after this long: soon at first, then less often."""

Item = tuple[UUID, JobSpec]
Announce = Callable[[Iterable[str]], None]
Store = Callable[[], Awaitable[list[Stored]]]


class Submits(Protocol):
    """A way in, as doors know it: the submitter, or something around it."""

    async def submit(self, spec: JobSpec, request_id: str = "") -> Submitted:
        """Store one job and return its id."""

    async def submit_many(self, specs: Sequence[JobSpec], request_id: str = "") -> list[Submitted]:
        """Store all jobs or none."""


class Submitter:
    """The one way in: validates, joins, stores, and announces what became ready."""

    def __init__(self, pool: Pool, limits: Limits, announce: Announce) -> None:
        """``announce`` gets queue names after each commit; it must not block."""
        self._pool = pool
        self._limits = limits
        self._announce = announce
        self._keyless = Batcher(self._flush_keyless, MAX_FLUSH)
        self._keyed = Batcher(self._flush_keyed, MAX_FLUSH)
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._lone = asyncio.Semaphore(max(pool.get_max_size() // 2, 1))

    async def submit(self, spec: JobSpec, request_id: str = "") -> Submitted:
        """Store one job and return its id.

        Repeating a ``request_id`` returns the same job. Cancelling the call leaves the job
        stored or not; it never harms another caller. Raises InvalidArgument, NotFound (queue),
        AlreadyExists (key known with other content), Unavailable.
        """
        check(spec_faults(spec, self._limits))
        item = _identified(spec, request_id, 0)
        lane = self._keyless if spec.idempotency_key is None else self._keyed
        stored = await lane.submit(item)
        if stored is None:
            stored = await self._store_alone(item)
        if stored.outcome not in _ACCEPTED:
            raise _refusal(stored.outcome, spec, at="job")
        self._announce_due([item])
        return _submitted(stored)

    async def submit_many(self, specs: Sequence[JobSpec], request_id: str = "") -> list[Submitted]:
        """Store all jobs or none; ids in the order of ``specs``.

        Raises as ``submit``; message and field path name the index of the bad item.
        """
        check_batch(specs, self._limits)
        items = [_identified(spec, request_id, i) for i, spec in enumerate(specs)]
        if any(spec.idempotency_key is not None for spec in specs):
            stored = await self._until_free(lambda: self._store_batch_keyed(items), items)
        else:
            stored = await _committed(lambda: self._store_batch(self._pool, items), items)
        self._announce_due(items)
        return [_submitted(answer) for answer in stored]

    async def close(self) -> None:
        """Wait for the flushes in flight and the gathered ones."""
        await self._keyless.drain()
        await self._keyed.drain()

    async def _store_batch_keyed(self, items: Sequence[Item]) -> list[Stored]:
        async with self._impatient() as connection:
            return await self._store_batch(connection, items)

    async def _store_batch(self, db: Db, items: Sequence[Item]) -> list[Stored]:
        try:
            return await self._store(db, items, atomic=True)
        except Exception as error:
            rejected = rejected_item(error)
            if rejected is None:
                raise
            index, outcome = rejected
            raise _refusal(outcome, items[index][1], at=f"jobs[{index}]") from error

    async def _store_alone(self, item: Item) -> Stored:
        """Store one item for as long as its caller waits; a cancelled caller ends it."""
        _, spec = item
        key = (spec.tenant, spec.idempotency_key or str(item[0]))
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            (stored,) = await self._until_free(lambda: self._store_keyed([item]), [item])
        return stored

    async def _until_free(self, store: Store, items: Sequence[Item]) -> list[Stored]:
        """Store again and again while a transaction holds a key; at most half the pool does."""
        pause_s = _HELD_FIRST_S
        while True:
            try:
                async with self._lone:
                    return await _committed(store, items)
            except Aborted as error:
                if error.reason != "LOCKED":
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _HELD_LAST_S)

    async def _flush_keyless(self, items: Sequence[Item]) -> Sequence[Stored | None]:
        return await self._flush(lambda: self._store(self._pool, items, atomic=False), items)

    async def _flush_keyed(self, items: Sequence[Item]) -> Sequence[Stored | None]:
        return await self._flush(lambda: self._store_keyed(items), items)

    async def _flush(self, store: Store, items: Sequence[Item]) -> Sequence[Stored | None]:
        """Store a joined flush; None for each item that must be tried alone."""
        try:
            return await _committed(store, items)
        except Unavailable:
            raise
        except JobQueueError:
            return [None] * len(items)

    async def _store_keyed(self, items: Sequence[Item]) -> list[Stored]:
        async with self._impatient() as connection:
            return await self._store(connection, items, atomic=False)

    @asynccontextmanager
    async def _impatient(self) -> AsyncIterator[Connection]:
        """Lend a transaction in which no lock is waited for long."""
        async with self._pool.acquire() as connection, connection.transaction():
            await limit_lock_waits(connection, KEYED_LOCK_WAIT_S)
            yield connection

    async def _store(self, db: Db, items: Sequence[Item], *, atomic: bool) -> list[Stored]:
        return await submit_jobs(db, items, atomic=atomic, horizon_s=self._limits.delay_s)

    def _announce_due(self, items: Iterable[Item]) -> None:
        due = {s.queue for _, s in items if not s.delay_s and s.not_before is None}
        if due:
            self._announce(due)


async def _committed(store: Store, items: Sequence[Item]) -> list[Stored]:
    """Store, again over transient errors, and say what was stored."""
    stored, unclear = await retrying_told(store)
    pairs = zip(items, stored, strict=True)
    # By id: one that was sent twice is stored once.
    new = {
        answer.job_id: spec.queue
        for (_, spec), answer in pairs
        if answer.outcome == "NEW" and (answer.fresh or unclear)
    }
    tell_moved(Counter(new.values()), JobStatus.PENDING, Reason.SUBMITTED)
    return stored


_ACCEPTED = ("NEW", "EXISTING")


def _identified(spec: JobSpec, request_id: str, index: int) -> Item:
    return (derived_job_id(request_id, index) if request_id else uuid4()), spec


def _submitted(stored: Stored) -> Submitted:
    return Submitted(stored.job_id, existing=stored.outcome == "EXISTING")


def _refusal(outcome: str, spec: JobSpec, *, at: str) -> JobQueueError:
    """Return the error that says why a submission was not stored."""
    if outcome == "NO_QUEUE":
        return NotFound("queue", spec.queue, at=f"{at}.queue")
    if outcome == "TOO_FAR":
        fault = "is too far in the future"
        return InvalidArgument([FieldViolation(f"{at}.not_before", fault)])
    return AlreadyExists(
        "idempotency_key",
        spec.idempotency_key or "",
        f"{at}.idempotency_key: {spec.idempotency_key!r} is known with other content",
        reason="IDEMPOTENCY_KEY_REUSED",
    )
