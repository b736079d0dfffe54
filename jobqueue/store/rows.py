"""Records of the database as domain types; with ``sql/`` the only place that knows columns."""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import asyncpg

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.event import EventGroup, EventKind, StreamEvent
from jobqueue.domain.job import Job, JobEvent, Progress
from jobqueue.domain.lease import Counters, Lease, LeasedJob, new_lease
from jobqueue.domain.limits import MAX_SHARE
from jobqueue.domain.outcome import Charge
from jobqueue.domain.queue import PRIORITIES, Queue, QueuePolicy, QueueStats
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.domain.worker import Worker, WorkerFacts, WorkerStatus

Row: TypeAlias = asyncpg.Record

_NO_COST = Counters()
_PRIORITIES = frozenset(map(str, PRIORITIES))


def text_map(value: str | None) -> dict[str, str]:
    """Read a map of texts that was selected as JSON text.

    Nobody but a hand in the database stores anything else there. That reads as empty: a claim must
    not fail for all its jobs because one of them cannot be read.
    """
    return {str(k): str(v) for k, v in _json_map(value).items()} if value else {}


def _json_map(value: str) -> dict[str, Any]:
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):  # more digits, or deeper, than Python reads
        return {}
    return read if isinstance(read, dict) else {}


def leased_job(row: Row) -> LeasedJob:
    """Read a row of claim_jobs, whose columns come in the order of the names here."""
    (
        job,
        token,
        job_id,
        queue,
        type_,
        payload,
        priority,
        attempt,
        running,
        max_retries,
        timeout_s,
        labels,
        trace_context,
        retries,
        crashes,
        handbacks,
        unhandled,
        base_delay_s,
        max_delay_s,
        multiplier,
        waited_s,
    ) = row
    return LeasedJob(
        new_lease((job, token)),
        job_id,
        queue,
        type_,
        payload,
        priority,
        attempt,
        running,
        max_retries,
        timeout_s,
        text_map(labels) if labels else {},
        text_map(trace_context) if trace_context else {},
        Counters(retries, crashes, handbacks, unhandled)
        if retries or crashes or handbacks or unhandled
        else _NO_COST,
        _policy(base_delay_s, max_delay_s, multiplier),
        waited_s,
    )


def charge(row: Row) -> Charge:
    """Read what deciding about a lease needs."""
    lease = Lease(row["job"], row["token"])
    return Charge(lease, row["max_retries"], _counters(row), _retry_policy(row))


def _counters(row: Row) -> Counters:
    return Counters(row["retries"], row["crashes"], row["handbacks"], row["unhandled"])


def _retry_policy(row: Row) -> RetryPolicy:
    return _policy(row["base_delay_s"], row["max_delay_s"], row["multiplier"])


@lru_cache(maxsize=256)
def _policy(base_delay_s: float, max_delay_s: float, multiplier: float) -> RetryPolicy:
    """Most jobs of a process share a few policies."""
    return RetryPolicy(base_delay_s, max_delay_s, multiplier)


def listed_job(row: Row) -> Job:
    """Read a row of list_jobs: a job without payload and result."""
    return Job(**_job_fields(row))


def job(row: Row) -> Job:
    """Read a row of get_job."""
    return Job(
        **_job_fields(row),
        payload=row["payload"],
        result=row["result"],
        result_truncated=row["result_truncated"],
        last_error=row["last_error"],
        ttl_s=row["ttl_s"],
        timeout_s=row["timeout_s"],
        idempotency_key=row["idempotency_key"],
        tenant=row["tenant"],
        labels=text_map(row["labels"]),
        trace_context=text_map(row["trace_context"]),
        progress=_progress(row),
    )


def _progress(row: Row) -> Progress | None:
    percent, message = row["progress_percent"], row["progress_message"]
    return None if message is None else Progress(percent, message)


_SHARED = (
    "job_id",
    "queue",
    "type",
    "priority",
    "attempt",
    "retry_count",
    "max_retries",
    "worker_id",
    "created_at",
    "not_before",
    "started_at",
    "finished_at",
    "cancel_requested",
)


def _job_fields(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = {name: row[name] for name in _SHARED}
    return fields | {"status": JobStatus(row["status"]), "reason": Reason(row["reason"])}


def job_event(row: Row) -> JobEvent:
    """Read a row of list_job_events."""
    was = row["from_status"]
    return JobEvent(
        event_id=row["event_id"],
        job_id=row["job_id"],
        queue=row["queue"],
        sequence=row["sequence"],
        from_status=JobStatus(was) if was else None,
        to_status=JobStatus(row["to_status"]),
        at=row["at"],
        reason=Reason(row["reason"]),
        attempt=row["attempt"],
        worker_id=row["worker_id"],
        detail=row["detail"],
    )


def stream_event(row: Row) -> StreamEvent:
    """Read a row of events whose columns come in the order of the fields."""
    event_id, job_id, at, detail, traceparent, *kind = row
    return StreamEvent(event_id, job_id, at, detail, traceparent, EventKind(*kind))


def event_group(row: Row) -> EventGroup:
    """Read a row of events of one kind, whose columns come in the order of the fields."""
    shared = len(EventKind._fields)
    return EventGroup(EventKind(*row[:shared]), *row[shared:])


def weights(value: str) -> dict[int, int]:
    """Read priority weights that were selected as JSON text; what cannot be one is left out."""
    return {
        int(priority): weight
        for priority, weight in _json_map(value).items()
        if priority in _PRIORITIES and isinstance(weight, int) and 1 <= weight <= MAX_SHARE
    }


def queue(row: Row) -> Queue:
    """Read a row of queues."""
    policy = QueuePolicy(
        max_retries=row["max_retries"],
        ttl_s=row["ttl_s"],
        retry=_retry_policy(row),
        priority_weights=weights(row["priority_weights"]),
        max_running=row["max_running"],
    )
    return Queue(row["name"], policy, row["paused"], row["created_at"], row["updated_at"])


def queue_stats(row: Row, window_s: float) -> QueueStats:
    """Read a row of get_queue_stats."""
    counts: dict[str, list[int]] = json.loads(row["counts"]) if row["counts"] else {}
    ended, failed, busy_ms = row["ended"] or 0, row["failed"] or 0, row["busy_ms"] or 0
    return QueueStats(
        queue=row["queue"],
        as_of=row["as_of"],
        depth={status: counts.get(status, [0, 0])[0] for status in JobStatus},
        done_total=counts.get(JobStatus.DONE, [0, 0])[1],
        dead_total=counts.get(JobStatus.DEAD_LETTERED, [0, 0])[1],
        window_s=window_s,
        average_processing_s=busy_ms / 1000 / ended if ended else None,
        error_rate=failed / ended if ended else None,
        oldest_runnable_s=None if row["oldest_s"] is None else max(row["oldest_s"], 0.0),
        unhandled=row["unhandled"],
        paused=row["paused"],
        max_running=row["max_running"],
    )


def names(listed: Iterable[object]) -> tuple[str, ...]:
    """Return the names in an array; what a hand put beside them, NULL or arrays, is none."""
    return tuple(name for name in listed if isinstance(name, str))


def worker(row: Row) -> Worker:
    """Read a row of list_workers."""
    facts = WorkerFacts(
        worker_id=row["worker_id"],
        hostname=row["hostname"],
        pid=row["pid"],
        queues=names(row["queues"]),
        types=names(row["types"]),
        concurrency=row["concurrency"],
        mode=row["mode"],
        version=row["version"],
    )
    return Worker(
        facts,
        WorkerStatus(row["status"]),
        row["running"],
        row["started_at"],
        row["last_beat_at"],
        None if row["clock_skew_ms"] is None else row["clock_skew_ms"] / 1000,
    )
