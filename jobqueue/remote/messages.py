"""What a worker says to WorkerService and hears from it: our words to protobuf and back."""

from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from google.protobuf.duration_pb2 import Duration

from jobqueue.domain.backoff import bounded_delay
from jobqueue.domain.lease import Lease, LeasedJob, Renewal
from jobqueue.domain.outcome import (
    Cancelled,
    Completed,
    Failed,
    Outcome,
    Postponed,
    Refused,
    Released,
    Unhandled,
)
from jobqueue.domain.state import Reason
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.v1 import worker_service_pb2 as pb


def register_message(facts: WorkerFacts) -> pb.RegisterRequest:
    """Return what a worker says about itself."""
    return pb.RegisterRequest(
        worker_id=facts.worker_id,
        hostname=facts.hostname,
        pid=facts.pid,
        queues=facts.queues,
        types=facts.types,
        concurrency=facts.concurrency,
        prefetch=facts.prefetch,
        version=facts.version,
    )


def leased_job(message: pb.AssignedJob) -> LeasedJob:
    """Read a job that was sent. Counters and policy stay with the server, which decides."""
    has = message.HasField
    return LeasedJob(
        lease=Lease.parse(message.lease),
        job_id=UUID(message.job_id),
        queue=message.queue,
        type=message.type if has("type") else None,
        payload=message.payload,
        priority=message.priority,
        attempt=message.attempt,
        running=False,
        max_retries=message.max_retries,
        timeout_s=seconds(message.run_timeout) if has("run_timeout") else None,
        labels=dict(message.labels),
        trace_context=dict(message.trace_context),
    )


def seconds(message: Duration) -> float:
    """Return a duration in seconds."""
    return message.seconds + message.nanos / 1e9


def result_message(  # noqa: PLR0911 - one line per outcome is the table
    lease: Lease, outcome: Outcome
) -> pb.Result:
    """Return a report. Raises ValueError for an outcome that no worker reports."""
    match outcome:
        case Completed(result, truncated):
            return pb.Result(
                lease=str(lease),
                outcome=pb.Result.OUTCOME_DONE,
                result=result,
                result_truncated=truncated,
            )
        case Failed(error, reason):
            timed_out = reason is Reason.TIMED_OUT
            return _told(lease, "TIMED_OUT" if timed_out else "FAILED", error)
        case Refused(error):
            return _told(lease, "REFUSED", error)
        case Postponed(delay_s, detail):
            report = _told(lease, "RETRY_LATER", detail)
            report.delay.FromNanoseconds(round(bounded_delay(delay_s) * 1e9))
            return report
        case Released(detail):
            return _told(lease, "RELEASED", detail)
        case Unhandled(detail):
            return _told(lease, "NO_HANDLER", detail)
        case Cancelled(detail):
            return _told(lease, "CANCELLED", detail)
    raise ValueError(f"{outcome!r} is not for a worker to report")


def _told(lease: Lease, word: str, detail: str) -> pb.Result:
    return pb.Result(lease=str(lease), outcome=f"OUTCOME_{word}", detail=detail)


_COMMANDS: Mapping[Any, WorkerCommand] = {
    pb.HeartbeatResponse.COMMAND_DRAIN: WorkerCommand.DRAIN,
    pb.HeartbeatResponse.COMMAND_SHUTDOWN: WorkerCommand.SHUTDOWN,
}


def command(answer: pb.HeartbeatResponse) -> WorkerCommand:
    """Return what is asked of the worker; words of a newer server are nothing to us."""
    return _COMMANDS.get(answer.command, WorkerCommand.NONE)


def renewals(answer: pb.HeartbeatResponse) -> list[Renewal]:
    """Return what became of each lease that was to be renewed."""
    cancelled = frozenset(answer.cancelled)
    states: tuple[tuple[Literal["renewed", "busy", "lost"], Any], ...] = (
        ("renewed", answer.renewed),
        ("busy", answer.busy),
        ("lost", answer.lost),
    )
    return [
        Renewal(Lease.parse(name), state, name in cancelled)
        for state, names in states
        for name in names
    ]
