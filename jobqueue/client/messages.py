"""Domain values to protobuf messages and back: jobs. No rules, only translation."""

from datetime import UTC, datetime
from uuid import UUID

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobqueue.domain.job import Job, JobEvent, JobSpec, Progress
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.v1 import job_pb2

_STATUS = "JOB_STATUS_"


def duration(seconds: float | None) -> Duration | None:
    """Return seconds as a message, rounded to nanoseconds."""
    return None if seconds is None else _duration(seconds)


def _duration(seconds: float) -> Duration:
    message = Duration()
    message.FromNanoseconds(round(seconds * 1e9))
    return message


def seconds(message: Duration) -> float:
    """Return a duration in seconds."""
    return message.seconds + message.nanos / 1e9


def instant(message: Timestamp) -> datetime:
    """Return an instant in UTC, to the microsecond."""
    return message.ToDatetime(tzinfo=UTC)


def status_name(status: JobStatus) -> str:
    """Return the name of the enum value for one of the six words."""
    return f"{_STATUS}{status}"


def status_word(number: int) -> JobStatus:
    """Return the word of an enum value. Raises ValueError for one this version does not know."""
    return JobStatus(job_pb2.JobStatus.Name(number).removeprefix(_STATUS))


def spec_message(spec: JobSpec) -> job_pb2.JobSpec:
    """Return a submission as it goes over the wire; what was not said stays absent."""
    # Field by field: a call that names them all takes three times as long.
    message = job_pb2.JobSpec(queue=spec.queue, payload=spec.payload)
    if spec.type is not None:
        message.type = spec.type
    if spec.priority:
        message.priority = spec.priority
    if spec.max_retries is not None:
        message.max_retries = spec.max_retries
    if spec.idempotency_key is not None:
        message.idempotency_key = spec.idempotency_key
    if spec.tenant:
        message.tenant = spec.tenant
    if spec.labels:
        message.labels.update(spec.labels)
    if spec.trace_context:
        message.trace_context.update(spec.trace_context)
    _set_times(message, spec)
    return message


def _set_times(message: job_pb2.JobSpec, spec: JobSpec) -> None:
    if spec.ttl_s is not None:
        message.ttl.CopyFrom(_duration(spec.ttl_s))
    if spec.delay_s is not None:
        message.delay.CopyFrom(_duration(spec.delay_s))
    if spec.timeout_s is not None:
        message.run_timeout.CopyFrom(_duration(spec.timeout_s))
    if spec.not_before is not None:
        message.not_before.FromDatetime(spec.not_before)


def job(message: job_pb2.Job) -> Job:
    """Read a job. Raises ValueError when it says what this version does not know."""
    has = message.HasField
    return Job(
        job_id=UUID(message.job_id),
        queue=message.queue,
        type=message.type if has("type") else None,
        status=status_word(message.status),
        reason=Reason(message.reason),
        priority=message.priority,
        attempt=message.attempt,
        retry_count=message.retry_count,
        max_retries=message.max_retries,
        created_at=instant(message.created_at),
        payload=message.payload,
        result=message.result if has("result") else None,
        result_truncated=message.result_truncated,
        last_error=message.last_error if has("last_error") else None,
        worker_id=message.worker_id if has("worker_id") else None,
        not_before=instant(message.not_before) if has("not_before") else None,
        started_at=instant(message.started_at) if has("started_at") else None,
        finished_at=instant(message.finished_at) if has("finished_at") else None,
        ttl_s=seconds(message.ttl) if has("ttl") else None,
        timeout_s=seconds(message.run_timeout) if has("run_timeout") else None,
        idempotency_key=message.idempotency_key if has("idempotency_key") else None,
        tenant=message.tenant,
        cancel_requested=message.cancel_requested,
        labels=dict(message.labels),
        trace_context=dict(message.trace_context),
        progress=_progress(message),
    )


def _progress(message: job_pb2.Job) -> Progress | None:
    if not message.HasField("progress_message"):
        return None
    percent = message.progress_percent if message.HasField("progress_percent") else None
    return Progress(percent, message.progress_message)


def event(message: job_pb2.JobEvent) -> JobEvent:
    """Read a transition. Raises ValueError when it says what this version does not know."""
    return JobEvent(
        event_id=message.event_id,
        job_id=UUID(message.job_id),
        queue=message.queue,
        sequence=message.sequence,
        from_status=status_word(message.from_status) if message.from_status else None,
        to_status=status_word(message.to_status),
        at=instant(message.timestamp),
        reason=Reason(message.reason),
        attempt=message.attempt,
        worker_id=message.worker_id if message.HasField("worker_id") else None,
        detail=message.detail if message.HasField("detail") else None,
    )
