"""Jobs: protobuf to our words and back. Translation only; the rules are the domain's."""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, methodcaller
from typing import Any, TypeAlias
from uuid import UUID

from jobqueue.domain.columns import WHOLE, JobColumns, fold
from jobqueue.domain.job import Job, JobFilter, JobSpec
from jobqueue.domain.limits import Limits, check, name_faults
from jobqueue.domain.state import JobStatus
from jobqueue.errors import FieldViolation, InvalidArgument
from jobqueue.events.encode import status_name
from jobqueue.rpc.times import duration, read_instant, read_seconds, timestamp
from jobqueue.v1 import job_pb2, job_service_pb2

_STATUS = "JOB_STATUS_"
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_REQUEST_ID_BYTES = range(16, 65)
DEFAULT_PAGE, MAX_PAGE = 50, 1000


def read_job_id(text: str) -> UUID:
    """Return a job id. Raises InvalidArgument unless it is a UUID in its usual form."""
    if not _UUID.fullmatch(text):
        raise InvalidArgument([FieldViolation("job_id", "is not a UUID")])
    return UUID(text)


def read_request_id(text: str) -> str:
    """Return the name of a call, which may be empty. Raises InvalidArgument for a short one."""
    if text and len(text.encode()) not in _REQUEST_ID_BYTES:
        raise InvalidArgument([FieldViolation("request_id", "must have 16 to 64 bytes")])
    return text


def read_page_size(size: int) -> int:
    """Return how many items a page may have. Raises InvalidArgument for a negative size."""
    if size < 0:
        raise InvalidArgument([FieldViolation("page_size", "must not be negative")])
    return min(size or DEFAULT_PAGE, MAX_PAGE)


def read_spec(message: job_pb2.JobSpec) -> JobSpec:
    """Return one submission. Raises InvalidArgument for times that are none."""
    faults: list[FieldViolation] = []
    spec = _spec(message, "job", faults)
    check(faults)
    return spec


def _spec(message: job_pb2.JobSpec, at: str, faults: list[FieldViolation]) -> JobSpec:
    """Read the fields that were sent; the others are "not said" in both vocabularies."""
    said: dict[str, Any] = {"queue": ""}
    for descriptor, value in message.ListFields():
        name, read = _FIELDS[descriptor.name]
        said[name] = read(value, f"{at}.{descriptor.name}", faults) if read else value
    return JobSpec(**said)


def read_columns(messages: Sequence[job_pb2.JobSpec]) -> JobColumns:
    """Return a batch. Raises InvalidArgument naming the index of each bad item.

    Field by field: to ask each message what it has takes longer than all the rest.
    """
    each, faults = list(messages), list[FieldViolation]()
    columns = {
        name: fold(_column(each, field, read, faults), name)
        for field, (name, read) in _FIELDS.items()
        if name != WHOLE
    }
    if faults:
        check(fault for i, one in enumerate(each) for fault in _faults(one, f"jobs[{i}]"))
    return JobColumns(size=len(each), payload=[one.payload for one in each], **columns)


def _faults(message: job_pb2.JobSpec, at: str) -> list[FieldViolation]:
    faults: list[FieldViolation] = []
    _spec(message, at, faults)
    return faults


def _column(
    messages: Sequence[job_pb2.JobSpec],
    field: str,
    read: "Reader | None",
    faults: list[FieldViolation],
) -> list[Any]:
    """Read one field of all messages; nothing when none of them has it."""
    get = attrgetter(field)
    if field not in _OPTIONAL:
        values = list(map(get, messages))
        if read is None:
            return values
        return [read(value, field, faults) for value in values] if any(values) else []
    has = methodcaller("HasField", field)
    if not any(map(has, messages)):
        return []
    if read is None:
        return [get(one) if has(one) else None for one in messages]
    return [read(get(one), field, faults) if has(one) else None for one in messages]


def _plain_map(pairs: Mapping[str, str], _field: str, _faults: object) -> dict[str, str]:
    return dict(pairs)


Reader: TypeAlias = Callable[[Any, str, list[FieldViolation]], Any]
"""Takes a value, its field path, and a list for what is wrong with it."""

_FIELDS: Mapping[str, tuple[str, Reader | None]] = {
    "queue": ("queue", None),
    "payload": ("payload", None),
    "type": ("type", None),
    "priority": ("priority", None),
    "max_retries": ("max_retries", None),
    "ttl": ("ttl_s", read_seconds),
    "delay": ("delay_s", read_seconds),
    "not_before": ("not_before", read_instant),
    "run_timeout": ("timeout_s", read_seconds),
    "idempotency_key": ("idempotency_key", None),
    "tenant": ("tenant", None),
    "labels": ("labels", _plain_map),
    "trace_context": ("trace_context", _plain_map),
}
"""Field of the message to field of the domain, and how to read it."""

_OPTIONAL = frozenset(
    field.name for field in job_pb2.JobSpec.DESCRIPTOR.fields if field.has_presence
)


def read_filter(request: job_service_pb2.ListJobsRequest, limits: Limits) -> JobFilter | None:
    """Return which jobs to list, None when the statuses asked for are none of the six.

    Raises InvalidArgument for names that no queue or type can have and for unknown statuses.
    """
    faults: list[FieldViolation] = []
    if request.queue:
        faults += name_faults("queue", request.queue, limits)
    if request.type:
        faults += name_faults("type", request.type, limits)
    statuses = _statuses(request.statuses, faults)
    check(faults)
    if request.statuses and not statuses:
        return None
    return JobFilter(request.queue or None, request.type or None, statuses)


def _statuses(numbers: Sequence[int], faults: list[FieldViolation]) -> frozenset[JobStatus]:
    found, known = set(), frozenset(job_pb2.JobStatus.values())
    for number in dict.fromkeys(numbers):  # once each: callers may send millions
        if number not in known:
            at = list(numbers).index(number)
            faults.append(FieldViolation(f"statuses[{at}]", "is not a status"))
            break
        if number != job_pb2.JOB_STATUS_UNSPECIFIED:
            found.add(JobStatus(job_pb2.JobStatus.Name(number).removeprefix(_STATUS)))
    return frozenset(found)


def job_message(job: Job, *, bodies: bool = True) -> job_pb2.Job:
    """Return a job as sent; without payload and result unless ``bodies``."""
    return job_pb2.Job(
        job_id=str(job.job_id),
        queue=job.queue,
        type=job.type,
        status=status_name(job.status),
        reason=job.reason,
        priority=job.priority,
        payload=job.payload if bodies else b"",
        result=job.result if bodies else None,
        result_truncated=job.result_truncated,
        last_error=job.last_error,
        attempt=job.attempt,
        retry_count=job.retry_count,
        max_retries=job.max_retries,
        worker_id=job.worker_id,
        created_at=timestamp(job.created_at),
        not_before=timestamp(job.not_before),
        started_at=timestamp(job.started_at),
        finished_at=timestamp(job.finished_at),
        ttl=duration(job.ttl_s),
        run_timeout=duration(job.timeout_s),
        idempotency_key=job.idempotency_key,
        tenant=job.tenant,
        cancel_requested=job.cancel_requested,
        labels=job.labels,
        trace_context=job.trace_context,
        progress_percent=job.progress.percent if job.progress else None,
        progress_message=job.progress.message if job.progress else None,
    )
