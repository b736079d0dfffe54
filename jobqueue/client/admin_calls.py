"""Every call of the administration as a value; see ``calls``."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from jobqueue.client import admin_messages as read
from jobqueue.client.calls import LIMITS, Call, nothing
from jobqueue.client.messages import duration
from jobqueue.client.policy import PolicyFields, policy_mask, policy_message
from jobqueue.client.results import SystemStatus, Version
from jobqueue.domain.checkup import CheckProgress, Finding
from jobqueue.domain.limits import check, name_faults, policy_faults, positive_faults
from jobqueue.domain.queue import Queue, QueueStats
from jobqueue.domain.worker import Worker
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.v1 import doctor_pb2

T = TypeVar("T")

MAX_WINDOW_S = 7 * 86_400.0


def create_queue(name: str, fields: PolicyFields) -> Call[Queue]:
    """Make a queue."""
    _check_name("name", name)
    policy_mask(fields)
    check(policy_faults(fields, LIMITS))
    request = admin.CreateQueueRequest(name=name, policy=policy_message(fields))
    return _call("CreateQueue", request, _queue)


def update_queue(name: str, fields: PolicyFields) -> Call[Queue]:
    """Set the named fields of a queue's policy."""
    _check_name("name", name)
    mask = policy_mask(fields)
    check(policy_faults(fields, LIMITS))
    request = admin.UpdateQueueRequest(name=name, policy=policy_message(fields), update_mask=mask)
    return _call("UpdateQueue", request, _queue)


def get_queue(name: str) -> Call[Queue]:
    """Return one queue."""
    _check_name("name", name)
    return _call("GetQueue", admin.GetQueueRequest(name=name), _queue)


def list_queues() -> Call[tuple[Queue, ...]]:
    """Return all queues by name."""
    return _call("ListQueues", admin.ListQueuesRequest(), _queues)


def delete_queue(name: str, *, force: bool) -> Call[int]:
    """Delete a queue; the answer is how many jobs were cancelled."""
    _check_name("name", name)
    request = admin.DeleteQueueRequest(name=name, force=force)
    return _call("DeleteQueue", request, _cancelled_count)


def pause_queue(name: str) -> Call[Queue]:
    """Stop claims from a queue."""
    _check_name("name", name)
    return _call("PauseQueue", admin.PauseQueueRequest(name=name), _queue)


def resume_queue(name: str) -> Call[Queue]:
    """Let claims go on."""
    _check_name("name", name)
    return _call("ResumeQueue", admin.ResumeQueueRequest(name=name), _queue)


def queue_stats(queue: str | None, window_s: float | None) -> Call[tuple[QueueStats, ...]]:
    """Return the figures of one queue or of all."""
    if queue is not None:
        _check_name("queue", queue)
    check(positive_faults("window", window_s, MAX_WINDOW_S))
    request = admin.GetQueueStatsRequest(queue=queue or "", window=duration(window_s))
    return _call("GetQueueStats", request, _stats)


def list_workers() -> Call[tuple[Worker, ...]]:
    """Return all registered workers by id."""
    return _call("ListWorkers", admin.ListWorkersRequest(), _workers)


def drain_worker(worker_id: str) -> Call[None]:
    """Let a worker finish what it runs and claim nothing more."""
    _check_name("worker_id", worker_id)
    return _call("DrainWorker", admin.DrainWorkerRequest(worker_id=worker_id), nothing)


def shutdown_worker(worker_id: str) -> Call[None]:
    """Drain a worker, then end it."""
    _check_name("worker_id", worker_id)
    return _call("ShutdownWorker", admin.ShutdownWorkerRequest(worker_id=worker_id), nothing)


def status() -> Call[SystemStatus]:
    """Return how everything is."""
    return _call("GetSystemStatus", admin.GetSystemStatusRequest(), read.system_status)


def doctor(checks: Sequence[str], *, quick: bool) -> Call[CheckProgress | Finding]:
    """Check the record; the answer is a stream."""
    return _call("RunDoctor", doctor_pb2.RunDoctorRequest(checks=checks, quick=quick), read.step)


def version() -> Call[Version]:
    """Return version and commit of the server."""
    return _call("GetVersion", admin.GetVersionRequest(), _version)


def _check_name(field: str, name: str) -> None:
    check(name_faults(field, name, LIMITS))


def _call(method: str, request: Message, convert: Callable[[Any], T]) -> Call[T]:
    return Call("AdminService", method, request, convert)


def _queue(
    answer: admin.CreateQueueResponse
    | admin.UpdateQueueResponse
    | admin.GetQueueResponse
    | admin.PauseQueueResponse
    | admin.ResumeQueueResponse,
) -> Queue:
    return read.queue(answer.queue)


def _queues(answer: admin.ListQueuesResponse) -> tuple[Queue, ...]:
    return tuple(read.queue(queue) for queue in answer.queues)


def _cancelled_count(answer: admin.DeleteQueueResponse) -> int:
    return answer.cancelled_count


def _stats(answer: admin.GetQueueStatsResponse) -> tuple[QueueStats, ...]:
    return tuple(read.stats(stats) for stats in answer.stats)


def _workers(answer: admin.ListWorkersResponse) -> tuple[Worker, ...]:
    return read.workers(answer.workers)


def _version(answer: admin.GetVersionResponse) -> Version:
    return Version(answer.version, answer.commit)
