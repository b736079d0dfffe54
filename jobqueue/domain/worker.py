"""What a worker says about itself, and what an operator may ask of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class WorkerStatus(StrEnum):
    """Shown to operators; never a reason to take a job back (only an expired lease is)."""

    ACTIVE = "ACTIVE"
    DRAINING = "DRAINING"  # finishes what it runs, claims nothing
    OFFLINE = "OFFLINE"  # no beat within the heartbeat timeout


class WorkerCommand(StrEnum):
    """What is asked of a worker; it hears it with its next beat.

    All but YIELD come from operators.
    """

    NONE = "NONE"
    DRAIN = "DRAIN"
    SHUTDOWN = "SHUTDOWN"
    YIELD = "YIELD"  # another process has registered under its id


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What a worker registers. ``mode`` is ``direct`` or ``remote``.

    It runs ``concurrency`` jobs at once and holds ``prefetch`` more ready.
    """

    worker_id: str
    hostname: str
    pid: int
    queues: tuple[str, ...]
    types: tuple[str, ...]
    concurrency: int
    mode: str
    version: str
    prefetch: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """A registered worker as it is now.

    ``clock_skew_s`` is how far its clock was ahead of the database's at its last beat.
    """

    facts: WorkerFacts
    status: WorkerStatus
    running: int
    started_at: datetime
    last_beat_at: datetime
    clock_skew_s: float | None = None
