"""How many workers the work of some queues asks for: one number, by one of three measures (R-10.2).

The number goes to a Kubernetes autoscaler, which divides it by the target of a replica.
"""

from dataclasses import dataclass
from enum import StrEnum

GROW = 2.0
"""Of the target: what is told when work waits and nothing is known of its pace."""


class Mode(StrEnum):
    """What is measured."""

    DEPTH = "depth"
    AGE = "age"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class Trigger:
    """What somebody scales on. ``queues`` None: on all that there are.

    ``target`` is what one replica is to bear, in the unit of the mode. With more than
    ``activation`` claimable jobs there must be a worker.
    """

    queues: frozenset[str] | None
    target: float
    activation: float = 0.0
    mode: Mode = Mode.DEPTH


@dataclass(frozen=True, slots=True)
class Load:
    """What some queues ask for together.

    ``claimable``: jobs that one more worker could begin now. ``held``: those that workers have,
    paused queues' too. ``oldest_age_s``: how long the oldest claimable one has waited.
    ``finished_per_s``: at which pace jobs ended of late, None: not known yet.
    """

    claimable: int = 0
    held: int = 0
    oldest_age_s: float = 0.0
    finished_per_s: float | None = None


def claimable(ready: int, held: int, *, paused: bool, max_running: int | None) -> int:
    """Return how many of a queue's ready jobs may begin now, beside those that workers have."""
    if paused:
        return 0
    return ready if max_running is None else min(ready, max(max_running - held, 0))


def is_active(trigger: Trigger, load: Load) -> bool:
    """Tell whether there must be a worker: while jobs are held, or enough are claimable."""
    return load.held > 0 or load.claimable > trigger.activation


def measure(trigger: Trigger, load: Load) -> float:
    """Return the number to scale on; 0 only where no replica is of use."""
    match trigger.mode:
        case Mode.DEPTH:
            return float(load.claimable + load.held)
        case Mode.AGE:
            return load.oldest_age_s
        case Mode.DRAIN:
            return _drain_s(trigger.target, load)


def _drain_s(target: float, load: Load) -> float:
    """Return the seconds until all is done, at the pace of late.

    Where nothing waits it is never more than the target: more replicas could not help.
    """
    work = load.claimable + load.held
    if not work:
        return 0.0
    estimate = work / load.finished_per_s if load.finished_per_s else GROW * target
    return estimate if load.claimable else min(estimate, target)
