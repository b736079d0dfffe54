"""Answers that are no part of the domain: versions and the state of the system."""

from dataclasses import dataclass
from datetime import datetime

from jobqueue.domain.queue import QueueStats
from jobqueue.domain.worker import Worker


@dataclass(frozen=True, slots=True)
class Version:
    """Version and commit of a server; the commit is ``unknown`` when it was built without git."""

    version: str
    commit: str


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """A part of the system; ``state`` is ok, degraded, down or off."""

    name: str
    state: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class UnhandledType:
    """Jobs that wait because no worker that met them had a handler.

    ``type`` None: they have no type.
    """

    queue: str
    type: str | None
    count: int


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """How server, database, queues and workers are. ``version`` is ``X.Y.Z (commit)``."""

    version: str
    started_at: datetime
    components: tuple[ComponentStatus, ...]
    queues: tuple[QueueStats, ...]
    workers: tuple[Worker, ...]
    unhandled: tuple[UnhandledType, ...]
