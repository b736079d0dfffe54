"""What was asked of PostgreSQL and what was written there, for those who count it (R-7.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jobqueue.domain.state import JobStatus, Reason
from jobqueue.runtime.signals import Signal


class Move(NamedTuple):
    """One kind of transition in one queue: to which status, and why."""

    queue: str
    status: JobStatus
    reason: Reason


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """A statement is over, ``seconds`` after it was sent; ``ok`` is False when it failed."""

    name: str
    seconds: float
    ok: bool


JOBS_MOVED: Signal[Mapping[Move, int]] = Signal("jobs_moved")
"""So many transitions were committed: one signal a statement, however many rows it wrote.

Sent by whoever wrote them, and once: of a statement whose answer was lost when its repetition
finds what it did.
"""
QUERY_ENDED: Signal[QueryEnded] = Signal("query_ended")


def tell_moved(by_queue: Mapping[str, int], status: JobStatus, reason: Reason) -> None:
    """Say that so many jobs of these queues went to ``status``."""
    moves = {Move(queue, status, reason): n for queue, n in by_queue.items() if n}
    if moves:
        JOBS_MOVED.emit(moves)
