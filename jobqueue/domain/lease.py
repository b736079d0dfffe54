"""A lease: the right to run one job now, held by a token that never repeats for that job."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple
from uuid import UUID

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.records import record

_NAME = re.compile(r"[0-9]{1,19}-[0-9]{1,19}", re.ASCII)
_HIGHEST = 2**63 - 1


class Lease(NamedTuple):
    """The fence of one attempt: internal job key and token. Every later write names both.

    A named tuple, because it is the key of every table of leases, several times a job.
    """

    job: int
    token: int

    def __str__(self) -> str:
        """Return the opaque name under which a remote worker knows it."""
        return f"{self.job}-{self.token}"

    @classmethod
    def parse(cls, text: str) -> "Lease":
        """Read what ``str`` made. Raises ValueError for anything else."""
        if not _NAME.fullmatch(text):
            raise ValueError(f"{text[:64]!r} is not a lease")
        job, token = map(int, text.split("-"))
        if max(job, token) > _HIGHEST:
            raise ValueError(f"{text[:64]!r} is not a lease")
        return cls(job, token)


new_lease: Callable[[Iterable[int]], Lease] = partial(tuple.__new__, Lease)
"""Makes a lease of a pair as ``Lease._make`` does, unchecked: a third of the price."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a renewal found: renewed, busy (held by its own settle: ask again) or lost."""

    lease: Lease
    state: Literal["renewed", "busy", "lost"]
    cancel_requested: bool


@record
class Counters:
    """What earlier attempts of this life cost, as the narrow rows carry it (R-3.9)."""

    retries: int = 0  # charged against max_retries
    crashes: int = 0  # leases lost while RUNNING, in a row
    handbacks: int = 0  # leases lost while ASSIGNED, in a row
    unhandled: int = 0  # times in a row no worker had a handler


@record
class LeasedJob:
    """A claimed job with everything a worker needs to run and settle it."""

    lease: Lease
    job_id: UUID
    queue: str
    type: str | None
    payload: bytes = field(repr=False)
    priority: int
    attempt: int
    running: bool  # False: prefetched (ASSIGNED), must be started before it may run
    max_retries: int
    timeout_s: float | None
    labels: dict[str, str] = field(default_factory=dict)
    trace_context: dict[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    waited_s: float = 0.0  # from when it was ready to when it was claimed

    def started(self) -> "LeasedJob":
        """Return it as a start leaves it, which ends what counts in a row only before one."""
        counters = Counters(self.counters.retries, self.counters.crashes)
        return replace(self, running=True, counters=counters)
