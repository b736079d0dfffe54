"""Looks jobs up, and moves them when an operator or a caller asks (R-3.12 to R-3.14)."""

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from uuid import UUID

from jobqueue.domain.job import CancelOutcome, EventPage, Job, JobFilter, JobPage
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.errors import FailedPrecondition, FieldViolation, InvalidArgument, NotFound
from jobqueue.store import jobs as store
from jobqueue.store.faults import retrying, retrying_told
from jobqueue.store.pool import Pool
from jobqueue.store.signals import tell_moved

_SEQUENCE = re.compile("[1-9][0-9]{0,8}")

WATCH_FIRST_S, WATCH_LAST_S = 0.05, 1.0
"""A watched job is looked at this often: soon after it moved, then less and less."""


class Jobs:
    """What can be asked of, and done with, jobs that exist.

    A move whose connection was cut may have been done, and then refuses to be done twice: before
    such an answer is taken for a refusal, the job is looked at.
    """

    def __init__(self, pool: Pool, announce: Callable[[Iterable[str]], None]) -> None:
        """``announce`` gets the queue of a job that was made ready; it must not block."""
        self._pool = pool
        self._announce = announce

    async def get(self, job_id: UUID) -> Job:
        """Return a job as it is now. Raises NotFound."""
        job = await retrying(lambda: store.get_job(self._pool, job_id))
        if job is None:
            raise NotFound("job", str(job_id))
        return job

    async def list(self, which: JobFilter, page_size: int, page_token: str = "") -> JobPage:
        """Return a page of jobs, newest first, without payloads.

        Pages never skip or repeat a job that exists throughout. One that is not the last may have
        fewer jobs, or none, where those that are wanted are rare. Raises InvalidArgument when the
        token was not made for this filter.
        """
        before = _position(page_token, which) if page_token else store.NEWEST
        end = await retrying(lambda: store.find_list_end(self._pool, which, before))
        found = await retrying(
            lambda: store.list_jobs(
                self._pool, which, before=before, limit=page_size + 1, down_to=end
            )
        )
        page = found[:page_size]
        if len(found) > page_size:
            end = page[-1].place
        token = _token(end, which) if end else ""
        return JobPage(tuple(listed.job for listed in page), token)

    async def events(self, job_id: UUID, page_size: int, page_token: str = "") -> EventPage:
        """Return a page of the transitions of a job, in order. Raises NotFound."""
        after = _sequence(page_token) if page_token else 0
        found = await retrying(
            lambda: store.list_job_events(self._pool, job_id, after=after, limit=page_size + 1)
        )
        if not found and not await retrying(lambda: store.get_job_sequence(self._pool, job_id)):
            raise NotFound("job", str(job_id))
        page = tuple(found[:page_size])
        return EventPage(page, str(page[-1].sequence) if len(found) > page_size else "")

    async def cancel(self, job_id: UUID, *, running: bool) -> CancelOutcome:
        """Cancel a job; one that runs only when ``running``, and then by asking its worker.

        Raises NotFound; FailedPrecondition when it is finished, or runs and that was not asked
        for; Aborted when a transaction holds it.
        """
        answer, repeated = await retrying_told(
            lambda: store.cancel_job(self._pool, job_id, running=running)
        )
        if answer.word == "CANCELLED" or (repeated and await self._is_cancelled(job_id)):
            _tell(answer, JobStatus.DEAD_LETTERED, Reason.CANCELLED)
            return CancelOutcome.CANCELLED
        if answer.word == "REQUESTED":
            return CancelOutcome.CANCEL_REQUESTED
        raise _refused(job_id, answer.word, "cancelled")

    async def retry(self, job_id: UUID) -> Job:
        """Make a FAILED or DEAD_LETTERED job PENDING; return it as it is afterwards.

        Raises NotFound, FailedPrecondition, Aborted.
        """
        before = await retrying(lambda: store.get_job_sequence(self._pool, job_id))
        answer, repeated = await retrying_told(lambda: store.retry_job(self._pool, job_id))
        done = answer.word == "RETRIED" or (
            repeated and await self._was_retried(job_id, after=before)
        )
        if not done:
            raise _refused(job_id, answer.word, "retried")
        _tell(answer, JobStatus.PENDING, Reason.OPERATOR_RETRY)
        job = await self.get(job_id)
        self._announce([job.queue])
        return job

    async def delete(self, job_id: UUID) -> None:
        """Delete a finished job; its idempotency key is free again, its events stay.

        Raises NotFound, FailedPrecondition, Aborted.
        """
        answer, repeated = await retrying_told(lambda: store.delete_job(self._pool, job_id))
        if answer != "DELETED" and not (repeated and answer == "NOT_FOUND"):
            raise _refused(job_id, answer, "deleted")

    async def _is_cancelled(self, job_id: UUID) -> bool:
        """Tell whether a job is where a cancel that had no answer would have brought it."""
        job = await retrying(lambda: store.get_job(self._pool, job_id))
        cancelled = JobStatus.DEAD_LETTERED, Reason.CANCELLED
        return job is not None and (job.status, job.reason) == cancelled

    async def _was_retried(self, job_id: UUID, *, after: int) -> bool:
        """Tell whether a retry that had no answer was done, though a worker may have it by now.

        ``after``: the latest transition that cannot be of that retry.
        """
        events = await retrying(lambda: store.list_job_events(self._pool, job_id, after=after))
        return any(event.reason is Reason.OPERATOR_RETRY for event in events)

    async def watch(self, job_id: UUID) -> AsyncIterator[Job]:
        """Yield the job now and after every change seen, until it is terminal. Raises NotFound."""
        last: Job | None = None
        known: tuple[object, ...] | None = None
        pause = WATCH_FIRST_S
        while last is None or not last.status.terminal:
            mark = await retrying(lambda: store.get_job_mark(self._pool, job_id))
            if mark is None or mark != known:  # else its payload need not be read
                known, job = mark, await self.get(job_id)
                if job != last:
                    yield job
                    last, pause = job, WATCH_FIRST_S
                    continue
            await asyncio.sleep(pause)
            pause = min(pause * 2, WATCH_LAST_S)


def _tell(answer: store.Answer, status: JobStatus, reason: Reason) -> None:
    if answer.queue is not None:
        tell_moved({answer.queue: 1}, status, reason)


def _refused(job_id: UUID, answer: str, done: str) -> NotFound | FailedPrecondition:
    if answer == "NOT_FOUND":
        return NotFound("job", str(job_id))
    if answer == "QUEUE_DELETED":
        return FailedPrecondition(
            f"the queue of job {job_id} was deleted, so it cannot be {done}", reason=answer
        )
    return FailedPrecondition(
        f"job {job_id} is {answer} and cannot be {done}", reason=f"JOB_{answer}"
    )


def _fingerprint(which: JobFilter) -> str:
    fields = [which.queue, which.type, sorted(which.statuses)]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]


def _token(place: int, which: JobFilter) -> str:
    raw = f"{place}:{_fingerprint(which)}".encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _sequence(token: str) -> int:
    """Return after which transition a page of events begins."""
    if not _SEQUENCE.fullmatch(token):
        raise InvalidArgument([FieldViolation("page_token", "is not a page token")])
    return int(token)


def _position(token: str, which: JobFilter) -> int:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii")
        place, fingerprint = raw.split(":")
        position = int(place)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument([FieldViolation("page_token", "is not a page token")]) from error
    if fingerprint != _fingerprint(which) or not 0 < position <= store.NEWEST:
        fault = "was made for another list; the other fields must stay as they were"
        raise InvalidArgument([FieldViolation("page_token", fault)])
    return position
