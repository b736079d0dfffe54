"""Protobuf messages to domain values: queues, workers, the system. No rules, only translation."""

from collections.abc import Iterable

from jobqueue.client.messages import instant, seconds, status_word
from jobqueue.client.results import ComponentStatus, SystemStatus, UnhandledType
from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.checkup import CheckProgress, Finding, Verdict
from jobqueue.domain.queue import Queue, QueuePolicy, QueueStats
from jobqueue.domain.state import JobStatus
from jobqueue.domain.worker import Worker, WorkerFacts, WorkerStatus
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.v1 import doctor_pb2


def queue(message: admin.Queue) -> Queue:
    """Read a queue."""
    return Queue(
        name=message.name,
        policy=_policy(message.policy),
        paused=message.paused,
        created_at=instant(message.created_at),
        updated_at=instant(message.updated_at),
    )


def _policy(message: admin.QueuePolicy) -> QueuePolicy:
    has = message.HasField
    plain = RetryPolicy()
    return QueuePolicy(
        max_retries=message.max_retries,
        ttl_s=seconds(message.ttl) if has("ttl") else None,
        retry=RetryPolicy(
            base_delay_s=seconds(message.base_delay),
            max_delay_s=seconds(message.max_delay),
            multiplier=message.multiplier if has("multiplier") else plain.multiplier,
        ),
        priority_weights=dict(message.priority_weights),
        max_running=message.max_running if has("max_running") else None,
    )


def stats(message: admin.QueueStats) -> QueueStats:
    """Read the figures of a queue; a status that is not named has no jobs."""
    has = message.HasField
    named = {status_word(entry.status): entry.count for entry in message.depth}
    average, oldest = message.average_processing_time, message.oldest_runnable_age
    return QueueStats(
        queue=message.queue,
        as_of=instant(message.as_of),
        depth={status: named.get(status, 0) for status in JobStatus},
        done_total=message.done_total,
        dead_total=message.dead_lettered_total,
        window_s=seconds(message.window),
        average_processing_s=seconds(average) if has("average_processing_time") else None,
        error_rate=message.error_rate if has("error_rate") else None,
        oldest_runnable_s=seconds(oldest) if has("oldest_runnable_age") else None,
        unhandled=message.unhandled,
        paused=message.paused,
        max_running=message.max_running if has("max_running") else None,
    )


def worker(message: admin.Worker) -> Worker:
    """Read a worker."""
    return Worker(
        facts=WorkerFacts(
            worker_id=message.worker_id,
            hostname=message.hostname,
            pid=message.pid,
            queues=tuple(message.queues),
            types=tuple(message.types),
            concurrency=message.concurrency,
            mode=message.mode,
            version=message.version,
        ),
        status=WorkerStatus(admin.Worker.Status.Name(message.status).removeprefix("STATUS_")),
        running=message.running,
        started_at=instant(message.started_at),
        last_beat_at=instant(message.last_beat_at),
        clock_skew_s=seconds(message.clock_skew) if message.HasField("clock_skew") else None,
    )


def system_status(message: admin.GetSystemStatusResponse) -> SystemStatus:
    """Read how everything is."""
    return SystemStatus(
        version=message.version,
        started_at=instant(message.started_at),
        components=tuple(
            ComponentStatus(part.name, part.state, part.detail) for part in message.components
        ),
        queues=tuple(stats(entry) for entry in message.queues),
        workers=workers(message.workers),
        unhandled=tuple(
            UnhandledType(entry.queue, entry.type or None, entry.count)
            for entry in message.unhandled
        ),
    )


def workers(messages: Iterable[admin.Worker]) -> tuple[Worker, ...]:
    """Read all workers."""
    return tuple(worker(entry) for entry in messages)


def step(message: doctor_pb2.RunDoctorResponse) -> CheckProgress | Finding:
    """Read one step of a check-up."""
    if message.WhichOneof("step") == "progress":
        return CheckProgress(message.progress.check, message.progress.seen, message.progress.about)
    result = message.result
    word = doctor_pb2.CheckResult.Verdict.Name(result.verdict).removeprefix("VERDICT_")
    return Finding(
        check=result.check,
        verdict=Verdict(word.lower()),
        found=result.found,
        examples=tuple(result.examples),
        advice=result.advice,
    )
