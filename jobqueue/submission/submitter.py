"""Takes jobs in. Single submissions that arrive while a flush is in flight share the next one.

Two lanes: a keyless item can wait for no row, a keyed one may wait for an application's
transaction that holds its key, and must not hold up the others. An item whose flush failed is
tried again alone, so that only the one at fault fails. However many callers wait for one held
key, one of them asks for it at a time, and none keeps a connection while it waits. A flush whose
answer does not come in seconds is sent again on a new connection, for its lane waits with it.

Explicit batches are never merged with strangers: they are all or none. They stop nobody else, and
may take as long as any statement.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol, TypeAlias
from uuid import UUID
from weakref import WeakValueDictionary

from jobqueue.domain.columns import JobColumns, columns_of, nth
from jobqueue.domain.content import derived_job_ids, random_job_ids
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
from jobqueue.runtime.tasks import start_detached
from jobqueue.store.faults import rejected_item, retrying_told, translated
from jobqueue.store.jobs import Other, has_past, job_ids, submit_jobs
from jobqueue.store.patience import Patience
from jobqueue.store.pool import Connection, Db, Pool, limit_lock_waits, transaction
from jobqueue.store.signals import tell_moved
from jobqueue.submission.capacity import Capacity, size_of, size_of_all

MAX_FLUSH = 500

KEYED_LOCK_WAIT_S = 0.05
"""A statement gives up on a held key this soon, so that no connection waits with the caller."""

_HINT_WAIT_S = 1.0
"""So long is asked whether workers are to be told of a date. Nobody's answer waits for that."""

_HELD_FIRST_S, _HELD_LAST_S = 0.02, 0.5
"""A held key is asked for again after this long: soon at first, then less often."""

Item = tuple[UUID, JobSpec]
Lane: TypeAlias = "Batcher[Item, Other | None]"
Announce = Callable[[Iterable[str]], None]
Ride = Callable[[Iterable[str]], AbstractContextManager[str | None]]
"""Lends a hint that a statement may send itself, as ``Announcer.ride``."""

Others = Mapping[int, Other]
Store = Callable[[], Awaitable[Others]]


@dataclass(frozen=True, slots=True)
class Load:
    """What goes to the database at once: submissions and the ids that their jobs get."""

    ids: Sequence[UUID]
    columns: JobColumns


class Submits(Protocol):
    """A way in, as doors know it: the submitter, or something around it."""

    async def submit(self, spec: JobSpec, request_id: str = "") -> Submitted:
        """Store one job and return its id."""

    async def submit_columns(self, columns: JobColumns, request_id: str = "") -> list[Submitted]:
        """Store all jobs or none."""


class Submitter:
    """The one way in: validates, joins, stores, and announces what became ready."""

    def __init__(
        self,
        pool: Pool,
        limits: Limits,
        announce: Announce,
        ride: Ride = lambda _queues: nullcontext(),
    ) -> None:
        """``announce`` gets queue names after each commit; it must not block.

        Those of a commit that ``ride`` lent a hint are not announced.
        """
        self._pool = pool
        self._limits = limits
        self._announce = announce
        self._ride = ride
        self._capacity = Capacity()
        self._keyless, self._keyed = self._lane(), self._lane()
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._lone = asyncio.Semaphore(max(pool.get_max_size() // 2, 1))
        self._looks: set[asyncio.Task[None]] = set()

    async def submit(self, spec: JobSpec, request_id: str = "") -> Submitted:
        """Store one job and return its id.

        Repeating a ``request_id`` returns the same job. Cancelling the call leaves the job
        stored or not; it never harms another caller. Raises InvalidArgument, NotFound (queue),
        AlreadyExists (key known with other content), Unavailable, ResourceExhausted (too many
        wait; nothing is stored).
        """
        check(spec_faults(spec, self._limits))
        keyed = spec.idempotency_key is not None
        with self._capacity.held(size_of(spec), keyed=keyed):
            return await self._submit(spec, request_id, self._keyed if keyed else self._keyless)

    async def _submit(self, spec: JobSpec, request_id: str, lane: Lane) -> Submitted:
        (job_id,) = _ids(request_id, 1)
        item = job_id, spec
        other = await lane.submit(item)
        if other is _ALONE:
            other = await self._store_alone(item)
        if other is not None and other.outcome not in _ACCEPTED:
            raise _refusal(other.outcome, spec, at="job")
        return Submitted(job_id) if other is None else _submitted(other)

    async def submit_many(self, specs: Sequence[JobSpec], request_id: str = "") -> list[Submitted]:
        """Store all jobs or none; ids in the order of ``specs``.

        Raises as ``submit``; message and field path name the index of the bad item.
        """
        return await self.submit_columns(columns_of(specs), request_id)

    async def submit_columns(self, columns: JobColumns, request_id: str = "") -> list[Submitted]:
        """Do as ``submit_many``, for those who have a batch as columns."""
        check_batch(columns, self._limits)
        with self._capacity.held(size_of_all(columns), keyed=bool(columns.idempotency_key)):
            return await self._submit_columns(columns, request_id)

    async def _submit_columns(self, columns: JobColumns, request_id: str) -> list[Submitted]:
        load = Load(_ids(request_id, columns.size), columns)
        if columns.idempotency_key:
            others = await self._until_free(lambda: self._store_batch_keyed(load), load)
        else:
            others = await _committed(lambda: self._store_batch(self._pool, load), load)
        self._announce_due(load, others)
        made = list(map(Submitted, load.ids))
        for index, other in others.items():
            made[index] = _submitted(other)
        return made

    async def close(self) -> None:
        """Wait for the flushes in flight and the gathered ones, and for what they announce."""
        await self._keyless.drain()
        await self._keyed.drain()
        await asyncio.gather(*self._looks)

    def _lane(self) -> Lane:
        return Batcher(partial(self._flush, Patience(self._pool)), MAX_FLUSH)

    async def _store_batch_keyed(self, load: Load) -> Others:
        async with self._pool.acquire() as connection, _impatient(connection):
            return await self._store_batch(connection, load)

    async def _store_batch(self, db: Db, load: Load) -> Others:
        try:
            return await self._store(db, load, atomic=True)
        except Exception as error:
            rejected = rejected_item(error)
            if rejected is None:
                raise
            index, outcome = rejected
            raise _refusal(outcome, load.columns.item(index), at=f"jobs[{index}]") from error

    async def _store_alone(self, item: Item) -> Other | None:
        """Store one item for as long as its caller waits; a cancelled caller ends it."""
        job_id, spec = item
        key = (spec.tenant, spec.idempotency_key or str(job_id))
        turn = self._turns.setdefault(key, asyncio.Lock())
        load = _load([item])
        patience = Patience(self._pool)
        async with turn:
            others = await self._until_free(lambda: self._store_lane(patience, load), load)
        self._announce_due(load, others)
        return others.get(0)

    async def _until_free(self, store: Store, load: Load) -> Others:
        """Store again and again while a transaction holds a key; at most half the pool does."""
        pause_s = _HELD_FIRST_S
        while True:
            try:
                async with self._lone:
                    return await _committed(store, load)
            except Aborted as error:
                if error.reason != "LOCKED":
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _HELD_LAST_S)

    async def _flush(self, patience: Patience, items: Sequence[Item]) -> Sequence[Other | None]:
        """Store a joined flush; None: stored; ``_ALONE`` for each when all must be tried alone."""
        load = _load(items)
        try:
            # Locks of the keys of many would wait behind another's hint, whose lock is global.
            with self._ride(_due(load, {})[0] if len(items) == 1 else ()) as hint:
                others = await _committed(lambda: self._store_lane(patience, load, hint), load)
        except Unavailable:
            raise
        except JobQueueError:
            return [_ALONE] * len(items)
        if hint is None:
            self._announce_due(load, others)
        return list(map(others.get, range(len(items))))

    async def _store_lane(self, patience: Patience, load: Load, hint: str | None = None) -> Others:
        async with patience.lend() as connection:
            if not load.columns.idempotency_key:
                return await self._store(connection, load, atomic=False, hint=hint)
            async with _impatient(connection):
                return await self._store(connection, load, atomic=False, hint=hint)

    async def _store(self, db: Db, load: Load, *, atomic: bool, hint: str | None = None) -> Others:
        horizon_s = self._limits.delay_s
        return await submit_jobs(
            db, load.ids, load.columns, atomic=atomic, horizon_s=horizon_s, hint=hint
        )

    def _announce_due(self, load: Load, others: Others) -> None:
        """Announce what may be claimed at once; what has a date by and by, if that is past."""
        due, dated = _due(load, others)
        if due:
            self._announce(due)
        if dated:
            past = self._announce_past(load.columns.not_before, dated)
            look = start_detached(past, "look-at-dates")
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    async def _announce_past(self, dates: Sequence[datetime | None], queues: set[str]) -> None:
        """Announce queues if one of these dates is past and the database says so soon."""
        with suppress(JobQueueError), translated():
            async with asyncio.timeout(_HINT_WAIT_S):  # the wait for a connection, too
                past = await has_past(self._pool, dates)
            if past:
                self._announce(queues)


@asynccontextmanager
async def _impatient(connection: Connection) -> AsyncIterator[None]:
    """Run the block in a transaction in which no lock is waited for long."""
    async with transaction(connection):
        await limit_lock_waits(connection, KEYED_LOCK_WAIT_S)
        yield


async def _committed(store: Store, load: Load) -> Others:
    """Store, again over transient errors, and say what was stored."""
    others, unclear = await retrying_told(store)
    tell_moved(_new(load, others, unclear=unclear), JobStatus.PENDING, Reason.SUBMITTED)
    return others


def _new(load: Load, others: Others, *, unclear: bool) -> Counter[str]:
    """Count by queue what this call stored; where an answer was lost, what was there already."""
    queues, size = load.columns.queue, load.columns.size
    if not others:
        return Counter({queues[0]: size}) if len(queues) == 1 else Counter(queues)
    # By id: one that was sent twice is stored once.
    new = {
        job_id: nth(queues, i)
        for i, job_id in enumerate(load.ids)
        if i not in others or (unclear and others[i].outcome == "REPEATED")
    }
    return Counter(new.values())


def _due(load: Load, others: Others) -> tuple[set[str], set[str]]:
    """Return the queues of what may be claimed at once, and others of what may if its date is past.

    Without what was refused.
    """
    columns = load.columns
    if not (others or columns.delay_s or columns.not_before):
        return set(columns.queue), set()
    due: set[str] = set()
    dated: set[str] = set()
    for index, spec in enumerate(columns.items()):
        if not spec.delay_s and (index not in others or others[index].outcome in _ACCEPTED):
            (due if spec.not_before is None else dated).add(spec.queue)
    return due, dated - due


_ACCEPTED = ("REPEATED", "EXISTING")
_ALONE = Other(UUID(int=0), "REPEATED")
"""Answers an item of a joined flush that must be tried alone."""


def _ids(request_id: str, count: int) -> Sequence[UUID]:
    return job_ids(derived_job_ids(request_id, count) if request_id else random_job_ids(count))


def _load(items: Sequence[Item]) -> Load:
    return Load([job_id for job_id, _ in items], columns_of([spec for _, spec in items]))


def _submitted(other: Other) -> Submitted:
    return Submitted(other.job_id, existing=other.outcome == "EXISTING")


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
