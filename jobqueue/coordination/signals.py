"""What happened to the locks between replicas, for those who count and log it."""

from dataclasses import dataclass
from enum import StrEnum

from jobqueue.runtime.signals import Signal


class LockState(StrEnum):
    """Why a replica acts, or does not."""

    OFF = "off"
    """Redis was not asked yet, or is asked no more: stands by."""
    HELD = "held"
    """Holds the lock: acts while it trusts the lock to be its own."""
    STANDBY = "held-by-another"
    """Stands by."""
    UNAVAILABLE = "unavailable"
    """Redis does not say who holds the lock: acts anyway."""
    GIVEN_UP = "given-up"
    """Could not do the work and left the lock to others: goes on trying without it."""

    @property
    def acts_without(self) -> bool:
        """True when a replica acts though it does not hold the lock."""
        return self in {LockState.UNAVAILABLE, LockState.GIVEN_UP}


@dataclass(frozen=True, slots=True)
class LockChanged:
    """A lock of this replica is in another state now; ``cause`` is text for people, or empty."""

    lock: str
    state: LockState
    cause: str = ""

    @property
    def held(self) -> bool:
        """True when this replica holds the lock."""
        return self.state is LockState.HELD


@dataclass(frozen=True, slots=True)
class RedisOperation:
    """One question to Redis is over; ``ok`` is False when there was no answer to go by."""

    operation: str
    seconds: float
    ok: bool


LOCK_CHANGED: Signal[LockChanged] = Signal("lock_changed")
REDIS_OPERATION: Signal[RedisOperation] = Signal("redis_operation")
