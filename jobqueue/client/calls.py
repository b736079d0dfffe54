"""Every call of the service as a value: which method, what to send, how to read the answer.

Building one checks the arguments with ``domain.limits`` and raises InvalidArgument, so that a bad
value costs no round trip and gets the same words as from the server.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from jobqueue.client import messages as read
from jobqueue.domain.columns import columns_of
from jobqueue.domain.job import (
    CancelOutcome,
    EventPage,
    Job,
    JobFilter,
    JobPage,
    JobSpec,
    Submitted,
)
from jobqueue.domain.limits import (
    Limits,
    check,
    check_batch,
    name_faults,
    number_faults,
    spec_faults,
)
from jobqueue.errors import FieldViolation, Internal, InvalidArgument
from jobqueue.v1 import job_service_pb2 as jobs

T = TypeVar("T")

MAX_PAGE = 1_000

LIMITS = Limits()
"""The widest ones. A server may be set to less, and then says so itself."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, ready to be sent; ``convert`` makes a typed result of the answer."""

    service: str  # JobService or AdminService
    method: str
    request: Message
    convert: Callable[[Any], T]

    def read(self, answer: Any) -> T:
        """Return the typed result. Raises Internal for an answer this version cannot read."""
        try:
            return self.convert(answer)
        except ValueError as error:
            fault = f"cannot read the answer to {self.method}; is the server newer? ({error})"
            raise Internal(fault, reason="UNREADABLE_ANSWER") from error


def job_text(job_id: UUID | str) -> str:
    """Return a job id in its canonical form. Raises InvalidArgument when it is none."""
    try:
        return str(job_id if isinstance(job_id, UUID) else UUID(job_id))
    except ValueError as error:
        raise InvalidArgument([FieldViolation("job_id", "is not a UUID")]) from error


def submit(spec: JobSpec) -> Call[Submitted]:
    """Store one job."""
    check(spec_faults(spec, LIMITS))
    request = jobs.SubmitJobRequest(job=read.spec_message(spec), request_id=_request_id())
    return _job_call("SubmitJob", request, _submitted)


def submit_many(specs: Sequence[JobSpec]) -> Call[tuple[Submitted, ...]]:
    """Store all of the jobs or none."""
    check_batch(columns_of(specs), LIMITS)
    request = jobs.SubmitJobsRequest(
        jobs=[read.spec_message(spec) for spec in specs], request_id=_request_id()
    )
    return _job_call("SubmitJobs", request, _all_submitted)


def get(job_id: UUID | str) -> Call[Job]:
    """Return one job."""
    return _job_call("GetJob", jobs.GetJobRequest(job_id=job_text(job_id)), _job)


def watch(job_id: UUID | str) -> Call[Job]:
    """Return the job now and after every change; the answer is a stream."""
    return _job_call("WatchJob", jobs.WatchJobRequest(job_id=job_text(job_id)), _job)


def list_page(job_filter: JobFilter, page_size: int, page_token: str) -> Call[JobPage]:
    """Return one page of jobs."""
    _check_page(page_size, page_token)
    for field, name in (("queue", job_filter.queue), ("type", job_filter.type)):
        if name is not None:
            check(name_faults(field, name, LIMITS))
    request = jobs.ListJobsRequest(
        queue=job_filter.queue or "",
        statuses=sorted(read.status_name(status) for status in job_filter.statuses),
        type=job_filter.type or "",
        page_size=page_size,
        page_token=page_token,
    )
    return _job_call("ListJobs", request, _page)


def events_page(job_id: UUID | str, page_size: int, page_token: str) -> Call[EventPage]:
    """Return one page of the transitions of one job."""
    _check_page(page_size, page_token)
    request = jobs.ListJobEventsRequest(
        job_id=job_text(job_id), page_size=page_size, page_token=page_token
    )
    return _job_call("ListJobEvents", request, _events)


def cancel(job_id: UUID | str, *, running: bool) -> Call[CancelOutcome]:
    """Cancel a job; a running one only when asked to."""
    request = jobs.CancelJobRequest(job_id=job_text(job_id), running=running)
    return _job_call("CancelJob", request, _cancelled)


def retry(job_id: UUID | str) -> Call[Job]:
    """Make a FAILED or DEAD_LETTERED job PENDING again."""
    return _job_call("RetryJob", jobs.RetryJobRequest(job_id=job_text(job_id)), _job)


def delete(job_id: UUID | str) -> Call[None]:
    """Delete a DONE or DEAD_LETTERED job."""
    return _job_call("DeleteJob", jobs.DeleteJobRequest(job_id=job_text(job_id)), nothing)


def _check_page(page_size: int, page_token: str) -> None:
    check(number_faults("page_size", page_size, 1, MAX_PAGE))
    if not page_token.isascii():
        raise InvalidArgument([FieldViolation("page_token", "is not a page token")])


def nothing(_answer: Message) -> None:
    """Read an answer that says no more than that it worked."""


def _job_call(method: str, request: Message, convert: Callable[[Any], T]) -> Call[T]:
    return Call("JobService", method, request, convert)


def _request_id() -> str:
    """Name a request, so that the transport may repeat it without making a second job."""
    return secrets.token_hex(16)


def _submitted(answer: jobs.SubmitJobResponse) -> Submitted:
    return Submitted(UUID(answer.job_id), answer.existing)


def _all_submitted(answer: jobs.SubmitJobsResponse) -> tuple[Submitted, ...]:
    flags = answer.existing or [False] * len(answer.job_ids)
    return tuple(
        Submitted(UUID(job_id), existing)
        for job_id, existing in zip(answer.job_ids, flags, strict=True)
    )


def _job(
    answer: jobs.GetJobResponse | jobs.RetryJobResponse | jobs.WatchJobResponse,
) -> Job:
    return read.job(answer.job)


def _page(answer: jobs.ListJobsResponse) -> JobPage:
    return JobPage(tuple(read.job(job) for job in answer.jobs), answer.next_page_token)


def _events(answer: jobs.ListJobEventsResponse) -> EventPage:
    return EventPage(tuple(read.event(event) for event in answer.events), answer.next_page_token)


def _cancelled(answer: jobs.CancelJobResponse) -> CancelOutcome:
    name = jobs.CancelJobResponse.Outcome.Name(answer.outcome)
    return CancelOutcome(name.removeprefix("OUTCOME_"))
