"""Statements that take jobs in, look them up and move them on request."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg
from asyncpg.pgproto import pgproto

from jobqueue.domain.columns import JobColumns
from jobqueue.domain.content import content_hash
from jobqueue.domain.job import Job, JobEvent, JobFilter
from jobqueue.domain.state import JobStatus
from jobqueue.store import rows
from jobqueue.store.pool import Db
from jobqueue.store.statements import statement

_SUBMIT = statement("submit_jobs")
_HAS_PAST = statement("has_past")
_GET = statement("get_job")
_GET_SEQUENCE = statement("get_job_sequence")
_GET_MARK = statement("get_job_mark")
_LIST = statement("list_jobs")
_LIST_END = statement("find_list_end")
_EVENTS = statement("list_job_events")
_CANCEL = statement("cancel_job")
_RETRY = statement("retry_job")
_DELETE = statement("delete_job")

NEWEST = 2**63 - 1
"""Page position before the newest job."""

LOOKED_THROUGH = 50_000
"""Of one table, for one page: ten million jobs hold a call up for longer than it may take."""

_FINISHED, _DEAD = frozenset({JobStatus.DONE}), frozenset({JobStatus.DEAD_LETTERED})
_READY = frozenset({JobStatus.PENDING})
_SCHEDULED = frozenset({JobStatus.PENDING, JobStatus.FAILED})


@dataclass(frozen=True, slots=True)
class Other:
    """What became of a submission that was not simply stored.

    REPEATED: its id was stored before, by an earlier try of the same submission.
    """

    job_id: UUID
    outcome: Literal["REPEATED", "EXISTING", "MISMATCH", "NO_QUEUE", "TOO_FAR"]


def job_ids(raw: bytes) -> list[UUID]:
    """Return ids of 16 bytes each as what the driver takes, and gives, fastest."""
    return [pgproto.UUID(raw[at : at + 16]) for at in range(0, len(raw), 16)]


async def submit_jobs(
    db: Db,
    ids: Sequence[UUID],
    columns: JobColumns,
    *,
    atomic: bool,
    horizon_s: float,
    hint: str | None = None,
) -> dict[int, Other]:
    """Store jobs under ids that the caller made; return what was not simply stored, by index.

    ``hint`` (see ``wakeups.hint_of``) reaches idle workers with the commit, which then waits for
    all others of the cluster that carry one: it is for rare commits only.

    Atomic: any outcome but REPEATED and EXISTING raises (SQLSTATE JQ001) and stores nothing.
    Safe to repeat with the same ids after an unclear commit; without keys, only outside of a
    transaction. Where an earlier try is being committed just now, that is a serialization failure.
    """
    keyed = bool(columns.idempotency_key)
    arguments = (horizon_s, ids, *_arrays(columns), hint)
    try:
        found = await db.fetch(_SUBMIT, atomic, keyed, *arguments)
    except asyncpg.UniqueViolationError as error:
        if keyed:
            # Another try of the same was committed since we looked; the next look finds it.
            raise asyncpg.SerializationError("an id was stored meanwhile") from error
        # To look before each insert costs more than to be told, and hardly ever finds anything.
        found = await db.fetch(_SUBMIT, atomic, True, *arguments)
    return {row["ord"] - 1: Other(row["job_id"], row["outcome"]) for row in found}


async def has_past(db: Db, dates: Sequence[datetime | None]) -> bool:
    """Tell whether one of these dates is past, by the clock that jobs become ready by."""
    return bool(await db.fetchval(_HAS_PAST, dates))


def _arrays(columns: JobColumns) -> Iterator[Sequence[object] | None]:
    """Return the columns in the order of the statement; None is cheaper than an empty array."""
    for column in (
        columns.payload,
        columns.queue,
        columns.type,
        columns.priority,
        columns.max_retries,
        columns.ttl_s,
        columns.delay_s,
        columns.not_before,
        columns.timeout_s,
        columns.tenant,
        columns.idempotency_key,
        _hashes(columns),
        [_json(labels) for labels in columns.labels],
        [_json(trace) for trace in columns.trace_context],
    ):
        yield column or None


def _hashes(columns: JobColumns) -> Sequence[bytes | None]:
    """Return the content of each item that has a key, which only those need."""
    if not columns.idempotency_key:
        return ()
    return [
        None if spec.idempotency_key is None else content_hash(spec) for spec in columns.items()
    ]


def _json(pairs: Mapping[str, str]) -> str | None:
    return json.dumps(dict(pairs)) if pairs else None


async def get_job(db: Db, job_id: UUID) -> Job | None:
    """Return a job, None when there is none."""
    row = await db.fetchrow(_GET, job_id)
    return rows.job(row) if row else None


async def get_job_mark(db: Db, job_id: UUID) -> tuple[object, ...] | None:
    """Return what is another after every change of a job; None: there is no such job."""
    row = await db.fetchrow(_GET_MARK, job_id)
    return None if row is None else tuple(row)


async def get_job_sequence(db: Db, job_id: UUID) -> int:
    """Return the number of a job's latest transition; 0 when there is no such job."""
    return await db.fetchval(_GET_SEQUENCE, job_id) or 0


@dataclass(frozen=True, slots=True)
class Listed:
    """A job of a page and its place in the order of the list."""

    place: int
    job: Job


async def find_list_end(db: Db, which: JobFilter, before: int) -> int:
    """Return the place down to which one page should look from ``before``; 0: to the end.

    Jobs have no index by type, nor by queue in this order but for dead ones: they are looked
    through.
    """
    if which.queue is None and which.type is None:
        return 0
    wanted = which.statuses or frozenset(JobStatus)
    tables = (_FINISHED if which.type is None else _FINISHED | _DEAD, _READY, _SCHEDULED)
    flags = [bool(wanted & statuses) for statuses in tables]
    return await db.fetchval(_LIST_END, before, LOOKED_THROUGH, *flags) or 0


async def list_jobs(
    db: Db, which: JobFilter, *, before: int, limit: int, down_to: int = 0
) -> list[Listed]:
    """Return at most ``limit`` jobs older than place ``before``, newest first.

    None of them is older than place ``down_to``.
    """
    statuses = list(which.statuses or JobStatus)
    found = await db.fetch(_LIST, before, limit, which.queue, which.type, statuses, down_to)
    return [Listed(r["job"], rows.listed_job(r)) for r in found]


async def list_job_events(
    db: Db, job_id: UUID, *, after: int = 0, limit: int = 1_000
) -> list[JobEvent]:
    """Return the next transitions of a job in order, after a sequence; empty: there are none."""
    return [rows.job_event(row) for row in await db.fetch(_EVENTS, job_id, after, limit)]


class Answer(NamedTuple):
    """What a move of one job came to, and the job's queue (None: there is no such job)."""

    word: str
    queue: str | None


async def cancel_job(db: Db, job_id: UUID, *, running: bool) -> Answer:
    """Cancel a job: CANCELLED, REQUESTED, NOT_FOUND, or the status that forbids it."""
    return _answer(await db.fetchrow(_CANCEL, job_id, running))


async def retry_job(db: Db, job_id: UUID) -> Answer:
    """Make a job PENDING: RETRIED, NOT_FOUND, QUEUE_DELETED, or the status that forbids it."""
    return _answer(await db.fetchrow(_RETRY, job_id))


def _answer(row: rows.Row | None) -> Answer:
    assert row is not None, "the function returns one row"
    return Answer(row["answer"], row["queue"])


async def delete_job(db: Db, job_id: UUID) -> str:
    """Delete a finished job. Returns DELETED, NOT_FOUND, or the status that forbids it."""
    return str(await db.fetchval(_DELETE, job_id))
