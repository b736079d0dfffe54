"""Queues, workers and figures: protobuf to our words and back."""

from collections.abc import Mapping

from google.protobuf.duration_pb2 import Duration

from jobqueue.domain.limits import Limits, check, name_faults
from jobqueue.domain.queue import PolicyChange, Queue, QueuePolicy, QueueStats
from jobqueue.domain.state import JobStatus
from jobqueue.domain.worker import Worker
from jobqueue.errors import FieldViolation
from jobqueue.events.encode import status_name
from jobqueue.rpc.times import duration, read_seconds, timestamp
from jobqueue.v1 import admin_service_pb2 as admin

DEFAULT_WINDOW_S, MAX_WINDOW_S = 3600.0, 7 * 86_400.0

_FIELDS = {
    "max_retries": "max_retries",
    "ttl": "ttl_s",
    "base_delay": "base_delay_s",
    "max_delay": "max_delay_s",
    "priority_weights": "priority_weights",
    "max_running": "max_running",
}
"""Field of the message to field of the policy; the multiplier is a setting of the server."""


def read_name(name: str, limits: Limits, field: str = "name") -> str:
    """Return a queue name or worker id. Raises InvalidArgument when nothing can be named so."""
    check(name_faults(field, name, limits))
    return name


def read_new_policy(message: admin.QueuePolicy) -> PolicyChange:
    """Return what a new queue is to have beside the defaults. Raises InvalidArgument."""
    return _change(message, [name for name in _FIELDS if _is_set(message, name)])


def read_change(request: admin.UpdateQueueRequest) -> PolicyChange:
    """Return what is to change: the fields of the mask, or without one those that are set.

    Raises InvalidArgument for an unknown field and when nothing is named at all.
    """
    paths = list(request.update_mask.paths)
    paths = paths or [name for name in _FIELDS if _is_set(request.policy, name)]
    if not paths:
        check([FieldViolation("update_mask", "names no field")])
    check(
        FieldViolation("update_mask", f"a policy has no field {path[:64]!r}")
        for path in paths
        if path not in _FIELDS
    )
    return _change(request.policy, paths)


def read_window(request: admin.GetQueueStatsRequest) -> float:
    """Return the window in seconds, one hour when absent. Raises InvalidArgument."""
    if not request.HasField("window"):
        return DEFAULT_WINDOW_S
    faults: list[FieldViolation] = []
    window = read_seconds(request.window, "window", faults)
    if window is not None and not 0 < window <= MAX_WINDOW_S:
        faults.append(FieldViolation("window", "must be more than 0 and at most 7 days"))
    check(faults)
    return window or DEFAULT_WINDOW_S


def _is_set(message: admin.QueuePolicy, name: str) -> bool:
    if name == "priority_weights":  # a map has no presence
        return bool(message.priority_weights)
    return message.HasField(name)


def _change(message: admin.QueuePolicy, paths: list[str]) -> PolicyChange:
    faults: list[FieldViolation] = []
    fields = {_FIELDS[path]: _value(message, path, faults) for path in paths}
    check(faults)
    return PolicyChange(fields)


def _value(message: admin.QueuePolicy, name: str, faults: list[FieldViolation]) -> object:
    if not _is_set(message, name):
        return None
    value: object = getattr(message, name)
    if isinstance(value, Duration):
        return read_seconds(value, f"policy.{name}", faults)
    if name == "priority_weights":
        return dict(message.priority_weights)
    return value


def policy_message(policy: QueuePolicy) -> admin.QueuePolicy:
    """Return a policy as sent."""
    return admin.QueuePolicy(
        max_retries=policy.max_retries,
        ttl=duration(policy.ttl_s),
        base_delay=duration(policy.retry.base_delay_s),
        max_delay=duration(policy.retry.max_delay_s),
        multiplier=policy.retry.multiplier,
        priority_weights=policy.priority_weights,
        max_running=policy.max_running,
    )


def queue_message(queue: Queue) -> admin.Queue:
    """Return a queue as sent."""
    return admin.Queue(
        name=queue.name,
        policy=policy_message(queue.policy),
        paused=queue.paused,
        created_at=timestamp(queue.created_at),
        updated_at=timestamp(queue.updated_at),
    )


def stats_message(stats: QueueStats) -> admin.QueueStats:
    """Return figures as sent: one depth for each of the six statuses."""
    return admin.QueueStats(
        queue=stats.queue,
        as_of=timestamp(stats.as_of),
        depth=_depth(stats.depth),
        done_total=stats.done_total,
        dead_lettered_total=stats.dead_total,
        window=duration(stats.window_s),
        average_processing_time=duration(stats.average_processing_s),
        error_rate=stats.error_rate,
        oldest_runnable_age=duration(stats.oldest_runnable_s),
        unhandled=stats.unhandled,
        paused=stats.paused,
        max_running=stats.max_running,
    )


def _depth(depth: Mapping[JobStatus, int]) -> list[admin.StatusCount]:
    return [admin.StatusCount(status=status_name(s), count=depth.get(s, 0)) for s in JobStatus]


def worker_message(worker: Worker) -> admin.Worker:
    """Return a worker as sent."""
    facts = worker.facts
    return admin.Worker(
        worker_id=facts.worker_id,
        hostname=facts.hostname,
        pid=facts.pid,
        queues=facts.queues,
        types=facts.types,
        concurrency=facts.concurrency,
        mode=facts.mode,
        version=facts.version,
        status=f"STATUS_{worker.status}",
        running=worker.running,
        started_at=timestamp(worker.started_at),
        last_beat_at=timestamp(worker.last_beat_at),
        clock_skew=duration(worker.clock_skew_s),
    )
