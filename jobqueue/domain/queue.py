"""A queue, its policy and its figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.state import JobStatus

DEFAULT_QUEUE = "default"
"""Exists after the first start and cannot be deleted."""

PRIORITIES = range(9, -1, -1)
"""All priorities, highest first."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """What a queue gives to jobs that do not say otherwise, and how it is served.

    ``priority_weights`` maps priorities to positive shares; empty means strict order.
    ``max_running`` None means unlimited; ``ttl_s`` None means no TTL.
    """

    max_retries: int = 3
    ttl_s: float | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    priority_weights: Mapping[int, int] = field(default_factory=dict)
    max_running: int | None = None


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """An update: a field named in ``fields`` is set (None clears it), all others stay.

    Names: max_retries, ttl_s, base_delay_s, max_delay_s, priority_weights, max_running.
    """

    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as it is now."""

    name: str
    policy: QueuePolicy
    paused: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Figures of one queue, exact at ``as_of`` (at most 2 s old).

    ``done_total`` and ``dead_total`` count jobs that ended so since the queue was made, pruned
    ones included. Averages and rates cover ``window_s``; None where nothing ended in it.
    """

    queue: str
    as_of: datetime
    depth: Mapping[JobStatus, int]
    done_total: int
    dead_total: int
    window_s: float
    average_processing_s: float | None
    error_rate: float | None
    oldest_runnable_s: float | None
    unhandled: int
    paused: bool
    max_running: int | None = None


def draw_order(weights: Mapping[int, int], draw: "list[float]") -> list[int]:
    """Return the ten priorities in the order one claim should visit them.

    With no weights: 9 down to 0. With weights: a weighted random permutation, each draw
    (uniform in (0, 1], one per priority) raised to 1/weight, the largest first, so that over many
    claims the first place falls to each priority in proportion to its weight
    (Efraimidis & Spirakis, 2006). Unnamed priorities weigh 1.
    """
    if not weights:
        return list(PRIORITIES)
    keyed = [(u ** (1.0 / weights.get(p, 1)), p) for p, u in zip(PRIORITIES, draw, strict=True)]
    return [p for _, p in sorted(keyed, reverse=True)]
