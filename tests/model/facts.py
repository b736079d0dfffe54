"""The nouns of the model: what a submission, a queue, a job, a lease and an event are."""

from collections import Counter
from dataclasses import MISSING, dataclass, field, fields
from typing import NamedTuple
from uuid import UUID


class _Brief:
    """Shows only what is not as usual: traces are long enough."""

    __slots__ = ()

    def __repr__(self) -> str:
        said = [
            f"{f.name}={value!r}"
            for f in fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, f.name)) != f.default or f.default is MISSING
        ]
        return f"{type(self).__name__}({', '.join(said)})"


@dataclass(frozen=True, slots=True, repr=False)
class Policy(_Brief):
    """What a queue gives to its jobs, and how it is served; durations in seconds."""

    max_retries: int = 3
    ttl_s: float | None = None
    base_s: float = 5.0
    cap_s: float = 300.0
    multiplier: float = 2.0
    max_running: int | None = None
    weights: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Item(_Brief):
    """A submission, as sent."""

    queue: str
    payload: bytes = b""
    type: str | None = "t"
    priority: int = 0
    max_retries: int | None = None
    ttl_s: float | None = None
    delay_s: float = 0.0
    not_before: float | None = None
    tenant: str = ""
    key: str | None = None

    @property
    def content(self) -> tuple[object, ...]:
        """What must be equal in two submissions with one key."""
        sent = (self.queue, self.payload, self.type, self.priority, self.max_retries)
        return (*sent, self.ttl_s, self.delay_s, self.not_before)


@dataclass(eq=False, slots=True)
class Queue:
    """A queue, and what happened in it: moves into each status, attempts ended and failed."""

    name: str
    policy: Policy
    paused: bool = False
    deleted: bool = False
    entered: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    failed: int = 0


@dataclass(slots=True)
class Hold:
    """A lease, with the policy of the queue as it was at the claim."""

    worker: int
    token: int
    policy: Policy
    claimed_at: float
    expires_at: float
    started_at: float | None = None
    cancel: bool = False


@dataclass(eq=False, slots=True)
class Job:
    """A job. ``due`` is set while it waits for a time, ``ttl_end`` until it is started."""

    job_id: UUID
    number: int
    queue: Queue
    item: Item
    max_retries: int
    ttl_s: float | None
    not_before: float | None
    ready_at: float
    due: float | None
    ttl_end: float | None
    due_latest: float = 0.0
    status: str = ""
    reason: str = ""
    seq: int = 0
    attempt: int = 0
    retries: int = 0
    crashes: int = 0
    handbacks: int = 0
    unhandled: int = 0
    hold: Hold | None = None
    ended_token: int | None = None
    ended_by: int | None = None
    started_at: float | None = None
    finished_at: float = 0.0

    @property
    def live(self) -> bool:
        """True until it is DONE or DEAD_LETTERED."""
        return self.status not in {"DONE", "DEAD_LETTERED"}

    @property
    def key(self) -> tuple[str, str] | None:
        """The idempotency key within its tenant."""
        return None if self.item.key is None else (self.item.tenant, self.item.key)


class Event(NamedTuple):
    """A transition. ``was`` is empty for the first."""

    job_id: UUID
    seq: int
    was: str
    became: str
    reason: str
    attempt: int
    worker: int | None
    token: int | None
    at: float
