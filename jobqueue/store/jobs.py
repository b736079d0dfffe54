"""Statements that take jobs in, look them up and move them on request."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from uuid import UUID

from jobqueue.domain.content import content_hash
from jobqueue.domain.job import Job, JobEvent, JobFilter, JobSpec
from jobqueue.domain.state import JobStatus
from jobqueue.store import rows
from jobqueue.store.pool import Db
from jobqueue.store.statements import statement

_SUBMIT = statement("submit_jobs")
_GET = statement("get_job")
_LIST = statement("list_jobs")
_EVENTS = statement("list_job_events")
_CANCEL = statement("cancel_job")
_RETRY = statement("retry_job")
_DELETE = statement("delete_job")

NEWEST = 2**63 - 1
"""Page position before the newest job."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one submission; ``fresh`` when it is this statement that stored it."""

    job_id: UUID
    outcome: Literal["NEW", "EXISTING", "MISMATCH", "NO_QUEUE", "TOO_FAR"]
    fresh: bool = True


async def submit_jobs(
    db: Db, items: Sequence[tuple[UUID, JobSpec]], *, atomic: bool, horizon_s: float
) -> list[Stored]:
    """Store jobs under ids that the caller made; answers in the same order.

    Atomic: any outcome but NEW and EXISTING raises (SQLSTATE JQ001) and stores nothing.
    Safe to repeat with the same ids after an unclear commit.
    """
    specs = [spec for _, spec in items]
    found = await db.fetch(
        _SUBMIT,
        atomic,
        horizon_s,
        [job_id for job_id, _ in items],
        [s.queue for s in specs],
        [s.type for s in specs],
        [s.priority for s in specs],
        [s.payload for s in specs],
        [s.max_retries for s in specs],
        [s.ttl_s for s in specs],
        [s.delay_s for s in specs],
        [s.not_before for s in specs],
        [s.timeout_s for s in specs],
        [s.tenant for s in specs],
        [s.idempotency_key for s in specs],
        [content_hash(s) if s.idempotency_key is not None else None for s in specs],
        [_json(s.labels) for s in specs],
        [_json(s.trace_context) for s in specs],
    )
    return [Stored(r["job_id"], r["outcome"], r["fresh"]) for r in found]


def _json(pairs: Mapping[str, str]) -> str | None:
    return json.dumps(dict(pairs)) if pairs else None


async def get_job(db: Db, job_id: UUID) -> Job | None:
    """Return a job, None when there is none."""
    row = await db.fetchrow(_GET, job_id)
    return rows.job(row) if row else None


@dataclass(frozen=True, slots=True)
class Listed:
    """A job of a page and its place in the order of the list."""

    place: int
    job: Job


async def list_jobs(db: Db, which: JobFilter, *, before: int, limit: int) -> list[Listed]:
    """Return at most ``limit`` jobs older than place ``before``, newest first."""
    statuses = list(which.statuses or JobStatus)
    found = await db.fetch(_LIST, before, limit, which.queue, which.type, statuses)
    return [Listed(r["job"], rows.listed_job(r)) for r in found]


async def list_job_events(db: Db, job_id: UUID) -> list[JobEvent]:
    """Return the transitions of a job in order; empty when there is no such job."""
    return [rows.job_event(row) for row in await db.fetch(_EVENTS, job_id)]


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
