"""The public gRPC client.

One typed way in for applications and for jq-ctl, free of every server dependency. What is not
I/O is written once: ``calls`` builds requests and reads answers, ``faults`` turns a failed call
into one of ``jobqueue.errors``, ``follow`` decides how a watcher goes on. ``Client`` and
``AsyncClient`` only send.
"""

from jobqueue.client.aio import AsyncClient
from jobqueue.client.batches import batches
from jobqueue.client.policy import PolicyFields
from jobqueue.client.results import (
    ComponentStatus,
    SystemStatus,
    UnhandledType,
    Version,
)
from jobqueue.client.sync import Client
from jobqueue.domain.checkup import Check, CheckProgress, Finding, Verdict
from jobqueue.domain.job import (
    CancelOutcome,
    EventPage,
    Job,
    JobEvent,
    JobFilter,
    JobPage,
    JobSpec,
    Submitted,
)
from jobqueue.domain.queue import Queue, QueuePolicy, QueueStats
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.domain.worker import Worker
from jobqueue.transport import Tls

__all__ = [
    "AsyncClient",
    "CancelOutcome",
    "Check",
    "CheckProgress",
    "Client",
    "ComponentStatus",
    "EventPage",
    "Finding",
    "Job",
    "JobEvent",
    "JobFilter",
    "JobPage",
    "JobSpec",
    "JobStatus",
    "PolicyFields",
    "Queue",
    "QueuePolicy",
    "QueueStats",
    "Reason",
    "Submitted",
    "SystemStatus",
    "Tls",
    "UnhandledType",
    "Verdict",
    "Version",
    "Worker",
    "batches",
]
