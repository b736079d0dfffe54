"""Domain values as documents: the field names of the protos, values that JSON and YAML know.

Every field is there, ``null`` when it has no value. Statuses are the six words, times RFC 3339 in
UTC, durations seconds. Bytes are text when they are UTF-8, else base64 beside a field
``<name>_encoding`` that says so.
"""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jobqueue.domain.checkup import Finding
from jobqueue.domain.event import ParkedEvent
from jobqueue.domain.job import Job, JobEvent
from jobqueue.domain.queue import Queue, QueueStats
from jobqueue.domain.worker import Worker

if TYPE_CHECKING:  # the client brings gRPC, which a --help need not wait for
    from jobqueue.client import SystemStatus

Document = dict[str, object]


def rfc3339(at: datetime | None) -> str | None:
    """Return an instant in UTC with a final Z."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def bytes_fields(name: str, raw: bytes | None) -> Document:
    """Return bytes as a field, and the field that says how, when they are no text."""
    if raw is None:
        return {name: None}
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(raw).decode(), f"{name}_encoding": "base64"}


def job(value: Job, *, bodies: bool = True) -> Document:
    """Return a job; without ``bodies`` as lists show it, without payload and result."""
    sent = {**bytes_fields("payload", value.payload), **bytes_fields("result", value.result)}
    return {
        "job_id": str(value.job_id),
        "queue": value.queue,
        "type": value.type,
        "status": str(value.status),
        "reason": str(value.reason),
        "priority": value.priority,
        **(sent if bodies else {}),
        "result_truncated": value.result_truncated,
        "last_error": value.last_error,
        "attempt": value.attempt,
        "retry_count": value.retry_count,
        "max_retries": value.max_retries,
        "worker_id": value.worker_id,
        "created_at": rfc3339(value.created_at),
        "not_before": rfc3339(value.not_before),
        "started_at": rfc3339(value.started_at),
        "finished_at": rfc3339(value.finished_at),
        "ttl": value.ttl_s,
        "run_timeout": value.timeout_s,
        "idempotency_key": value.idempotency_key,
        "tenant": value.tenant,
        "cancel_requested": value.cancel_requested,
        "labels": dict(value.labels),
        "trace_context": dict(value.trace_context),
        "progress_percent": value.progress.percent if value.progress else None,
        "progress_message": value.progress.message if value.progress else None,
    }


def event(value: JobEvent) -> Document:
    """Return a transition."""
    return {
        "event_id": value.event_id,
        "job_id": str(value.job_id),
        "queue": value.queue,
        "type": value.type,
        "sequence": value.sequence,
        "from_status": None if value.from_status is None else str(value.from_status),
        "to_status": str(value.to_status),
        "timestamp": rfc3339(value.at),
        "worker_id": value.worker_id,
        "reason": str(value.reason),
        "detail": value.detail,
        "attempt": value.attempt,
    }


def parked_event(value: ParkedEvent) -> Document:
    """Return an event that Kafka refused."""
    return {
        "event": event(value.event),
        "cause": value.cause,
        "parked_at": rfc3339(value.parked_at),
        "resending": value.resending,
    }


def queue(value: Queue) -> Document:
    """Return a queue."""
    policy = value.policy
    return {
        "name": value.name,
        "policy": {
            "max_retries": policy.max_retries,
            "ttl": policy.ttl_s,
            "base_delay": policy.retry.base_delay_s,
            "max_delay": policy.retry.max_delay_s,
            "priority_weights": _by_text(policy.priority_weights),
            "max_running": policy.max_running,
            "multiplier": policy.retry.multiplier,
        },
        "paused": value.paused,
        "created_at": rfc3339(value.created_at),
        "updated_at": rfc3339(value.updated_at),
    }


def _by_text(weights: Mapping[int, int]) -> dict[str, int]:
    return {str(priority): weights[priority] for priority in sorted(weights, reverse=True)}


def stats(value: QueueStats) -> Document:
    """Return the figures of a queue."""
    return {
        "queue": value.queue,
        "as_of": rfc3339(value.as_of),
        "depth": [{"status": str(status), "count": count} for status, count in value.depth.items()],
        "done_total": value.done_total,
        "dead_lettered_total": value.dead_total,
        "window": value.window_s,
        "average_processing_time": value.average_processing_s,
        "error_rate": value.error_rate,
        "oldest_runnable_age": value.oldest_runnable_s,
        "unhandled": value.unhandled,
        "paused": value.paused,
        "max_running": value.max_running,
    }


def worker(value: Worker) -> Document:
    """Return a worker."""
    facts = value.facts
    return {
        "worker_id": facts.worker_id,
        "hostname": facts.hostname,
        "pid": facts.pid,
        "queues": list(facts.queues),
        "types": list(facts.types),
        "concurrency": facts.concurrency,
        "mode": facts.mode,
        "version": facts.version,
        "status": str(value.status),
        "running": value.running,
        "started_at": rfc3339(value.started_at),
        "last_beat_at": rfc3339(value.last_beat_at),
        "clock_skew": value.clock_skew_s,
    }


def finding(value: Finding) -> Document:
    """Return what one check found."""
    return {
        "check": value.check,
        "verdict": str(value.verdict),
        "found": value.found,
        "examples": list(value.examples),
        "advice": value.advice,
    }


def system(value: "SystemStatus") -> Document:
    """Return how everything is."""
    return {
        "version": value.version,
        "started_at": rfc3339(value.started_at),
        "components": [
            {"name": part.name, "state": part.state, "detail": part.detail}
            for part in value.components
        ],
        "queues": [stats(entry) for entry in value.queues],
        "workers": [worker(entry) for entry in value.workers],
        "unhandled": [
            {"queue": entry.queue, "type": entry.type, "count": entry.count}
            for entry in value.unhandled
        ],
    }
