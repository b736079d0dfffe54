"""What remote workers say and hear: protobuf to our words and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from jobqueue.domain.job import Progress
from jobqueue.domain.lease import Lease, LeasedJob, Renewal
from jobqueue.domain.limits import (
    WORDS_BYTES,
    Limits,
    check,
    count_faults,
    number_faults,
    safe_text,
    text_faults,
)
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
from jobqueue.errors import FieldViolation
from jobqueue.lease.desk import Beat
from jobqueue.rpc.times import duration, read_instant, read_seconds
from jobqueue.v1 import worker_service_pb2 as pb


def read_facts(request: pb.RegisterRequest) -> WorkerFacts:
    """Return what a worker says about itself, each queue and type once; not checked yet."""
    return WorkerFacts(
        worker_id=request.worker_id,
        hostname=request.hostname,
        pid=request.pid,
        queues=tuple(dict.fromkeys(request.queues)),
        types=tuple(dict.fromkeys(request.types)),
        concurrency=request.concurrency,
        mode="remote",
        version=request.version,
        prefetch=request.prefetch,
    )


def read_beat(request: pb.HeartbeatRequest) -> Beat:
    """Return what a worker says of itself. Raises InvalidArgument for a clock that is none."""
    if not request.HasField("clock"):
        return Beat(request.draining)
    faults: list[FieldViolation] = []
    clock = read_instant(request.clock, "clock", faults)
    check(faults)
    return Beat(request.draining, clock.timestamp() if clock else None)


def read_leases(field: str, names: Sequence[str]) -> list[Lease]:
    """Return leases, each once. Raises InvalidArgument naming the index of one that is none."""
    check(count_faults(field, len(names)))
    faults: list[FieldViolation] = []
    leases: dict[Lease, None] = {}
    for i, name in enumerate(names):
        if (lease := _lease(f"{field}[{i}]", name, faults)) is not None:
            leases[lease] = None
    check(faults)
    return list(leases)


def _lease(field: str, name: str, faults: list[FieldViolation]) -> Lease | None:
    try:
        return Lease.parse(name)
    except ValueError:
        faults.append(FieldViolation(field, "is not a lease that a job came with"))
        return None


def read_results(results: Sequence[pb.Result], limits: Limits) -> dict[Lease, Outcome]:
    """Return outcomes by lease; of two for one lease the first.

    What is too long is cut, and text that PostgreSQL cannot hold is made safe: an outcome is never
    refused for that. Raises InvalidArgument for what is no outcome at all.
    """
    check(count_faults("results", len(results)))
    faults: list[FieldViolation] = []
    outcomes: dict[Lease, Outcome] = {}
    for i, result in enumerate(results):
        at = f"results[{i}]"
        lease = _lease(f"{at}.lease", result.lease, faults)
        outcome = _outcome(result, at, limits, faults)
        if lease is not None and outcome is not None:
            outcomes.setdefault(lease, outcome)
    check(faults)
    return outcomes


def _outcome(  # noqa: PLR0911 - one line per outcome is the table
    result: pb.Result, at: str, limits: Limits, faults: list[FieldViolation]
) -> Outcome | None:
    detail = safe_text(result.detail, limits.error_bytes)
    match result.outcome:
        case pb.Result.OUTCOME_DONE:
            return _completed(result, limits)
        case pb.Result.OUTCOME_FAILED:
            return Failed(detail)
        case pb.Result.OUTCOME_TIMED_OUT:
            return Failed(detail, Reason.TIMED_OUT)
        case pb.Result.OUTCOME_RETRY_LATER:
            return Postponed(_delay(result, at, limits, faults), detail)
        case pb.Result.OUTCOME_REFUSED:
            return Refused(detail)
        case pb.Result.OUTCOME_CANCELLED:
            return Cancelled(detail)
        case pb.Result.OUTCOME_NO_HANDLER:
            return Unhandled(detail)
        case pb.Result.OUTCOME_RELEASED:
            return Released(detail)
    faults.append(FieldViolation(f"{at}.outcome", "is not an outcome"))
    return None


def _completed(result: pb.Result, limits: Limits) -> Completed:
    if not result.HasField("result"):
        return Completed(None, result.result_truncated)
    cut = len(result.result) > limits.result_bytes
    return Completed(result.result[: limits.result_bytes], cut or result.result_truncated)


def _delay(result: pb.Result, at: str, limits: Limits, faults: list[FieldViolation]) -> float:
    if not result.HasField("delay"):
        faults.append(FieldViolation(f"{at}.delay", "must be given"))
        return 0.0
    seconds = read_seconds(result.delay, f"{at}.delay", faults)
    faults += number_faults(f"{at}.delay", seconds, 0, limits.delay_s)
    return seconds or 0.0


def read_progress(words: Sequence[pb.Progress]) -> dict[Lease, Progress]:
    """Return progress by lease; of two words for one lease the last. Raises InvalidArgument."""
    check(count_faults("progress", len(words)))
    faults: list[FieldViolation] = []
    progress: dict[Lease, Progress] = {}
    for i, word in enumerate(words):
        at = f"progress[{i}]"
        percent = word.percent if word.HasField("percent") else None
        faults += number_faults(f"{at}.percent", percent, 0, 100)
        faults += text_faults(f"{at}.message", word.message, WORDS_BYTES)
        if (lease := _lease(f"{at}.lease", word.lease, faults)) is not None:
            progress[lease] = Progress(percent, word.message)
    check(faults)
    return progress


def job_message(job: LeasedJob) -> pb.AssignedJob:
    """Return a job as it is sent to its worker."""
    return pb.AssignedJob(
        lease=str(job.lease),
        job_id=str(job.job_id),
        queue=job.queue,
        type=job.type,
        payload=job.payload,
        priority=job.priority,
        attempt=job.attempt,
        max_retries=job.max_retries,
        run_timeout=duration(job.timeout_s),
        labels=job.labels,
        trace_context=job.trace_context,
    )


_STARTS: Mapping[str, "pb.StartJobsResponse.State"] = {
    "started": pb.StartJobsResponse.STATE_STARTED,
    "expired": pb.StartJobsResponse.STATE_EXPIRED,
    "lost": pb.StartJobsResponse.STATE_LOST,
}


def start_message(lease: Lease, state: str) -> pb.StartJobsResponse.Start:
    """Return what became of one start."""
    return pb.StartJobsResponse.Start(lease=str(lease), state=_STARTS[state])


_REPORTS: Mapping[str, "pb.ReportResultsResponse.State"] = {
    "settled": pb.ReportResultsResponse.STATE_SETTLED,
    "lost": pb.ReportResultsResponse.STATE_LOST,
    "not_started": pb.ReportResultsResponse.STATE_NOT_STARTED,
}


def report_message(lease: Lease, verdict: str) -> pb.ReportResultsResponse.Report:
    """Return what became of one report."""
    return pb.ReportResultsResponse.Report(lease=str(lease), state=_REPORTS[verdict])


_COMMANDS: Mapping[WorkerCommand, "pb.HeartbeatResponse.Command"] = {
    WorkerCommand.NONE: pb.HeartbeatResponse.COMMAND_NONE,
    WorkerCommand.DRAIN: pb.HeartbeatResponse.COMMAND_DRAIN,
    WorkerCommand.SHUTDOWN: pb.HeartbeatResponse.COMMAND_SHUTDOWN,
}


def heartbeat_message(
    command: WorkerCommand, renewals: Sequence[Renewal], cancelled: Iterable[Lease]
) -> pb.HeartbeatResponse:
    """Return what a worker must hear."""

    def named(state: Literal["renewed", "busy", "lost"]) -> list[str]:
        return [str(r.lease) for r in renewals if r.state == state]

    return pb.HeartbeatResponse(
        command=_COMMANDS[command],
        renewed=named("renewed"),
        busy=named("busy"),
        lost=named("lost"),
        cancelled=map(str, dict.fromkeys(cancelled)),
    )
