"""How an attempt ended, what that costs, and where the job goes next (R-3.9).

``decide`` is pure: chance is an argument. Workers and the reaper call the same function, so
a job that a worker failed and a job whose worker died are charged by one table. A cancel
request that arrives after the decision is honoured by the settling statement itself.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from jobqueue.domain.backoff import RetryPolicy, bounded_delay, retry_delay
from jobqueue.domain.lease import Counters, Lease
from jobqueue.domain.records import record
from jobqueue.domain.state import JobStatus, Reason

HANDBACK_LIMIT = 10
"""The tenth lease lost in a row while ASSIGNED counts as a crash."""

NO_HANDLER_BASE_S, NO_HANDLER_MAX_S = 5.0, 60.0
"""A job nobody here can run waits 5 s, doubling to 60 s (R-3.10)."""


UNHANDLED_LIMIT = 1_000
"""Where the count of times without a handler stops: it waits for years, its column is narrow."""


@record
class Completed:
    """The handler returned; ``result`` may be empty or None."""

    result: bytes | None = field(default=None, repr=False)
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed: HANDLER_FAILED, TIMED_OUT or ASSIGNMENT_TIMEOUT."""

    error: str
    reason: Reason = Reason.HANDLER_FAILED


@dataclass(frozen=True, slots=True)
class Refused:
    """The handler says that no retry can help."""

    error: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """The handler asks to be run again after ``delay_s`` seconds; costs nothing."""

    delay_s: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Released:
    """Handed back unfinished (shutdown, drain, prefetch given back); costs nothing."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unhandled:
    """No handler here knows the job's type; costs nothing."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler was stopped because an operator cancelled the job."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """The lease ran out; ``running`` says whether the attempt had started."""

    running: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Expired:
    """The TTL ended before the job was ever started."""


Outcome = (
    Completed
    | Failed
    | Refused
    | Postponed
    | Released
    | Unhandled
    | Cancelled
    | LeaseExpired
    | Expired
)


class Fate(StrEnum):
    """Where a settled job goes: the table its row moves to."""

    DONE = "DONE"  # finished
    WAIT = "WAIT"  # scheduled, FAILED until due
    READY = "READY"  # ready, PENDING at once
    DEAD = "DEAD"  # finished, dead-lettered


class End(NamedTuple):
    """The transitions that a settlement writes."""

    fate: Fate
    reason: Reason
    dead_reason: Reason | None = None

    @property
    def charges_retry(self) -> bool:
        """True when the attempt cost a retry and another one is to come."""
        return self.fate is Fate.WAIT and self.reason not in _FREE_WAITS

    def moves(self) -> tuple[tuple[JobStatus, Reason], ...]:
        """Return where the job goes on its way, and why."""
        if self.fate is Fate.DONE:
            return ((JobStatus.DONE, self.reason),)
        failed = (JobStatus.FAILED, self.reason)
        if self.fate is Fate.READY:
            return failed, (JobStatus.PENDING, self.reason)
        if self.dead_reason is not None:
            return failed, (JobStatus.DEAD_LETTERED, self.dead_reason)
        return (failed,)


_CANCELLED_END = End(Fate.DEAD, Reason.CANCELLED, Reason.CANCELLED)
_NO_COST = Counters()
_FREE_WAITS = frozenset({Reason.RETRY_LATER, Reason.NO_HANDLER})


@record
class Settlement:
    """The end of one lease, ready to be written."""

    lease: Lease
    fate: Fate
    reason: Reason  # of the move out of ASSIGNED or RUNNING
    dead_reason: Reason | None = None  # of FAILED→DEAD_LETTERED
    delay_s: float = 0.0  # only for WAIT
    counters: Counters = field(default_factory=Counters)
    result: bytes | None = field(default=None, repr=False)
    result_truncated: bool = False
    detail: str | None = None  # error text of a failure, or why

    def end(self, *, cancelled: bool) -> End:
        """Return what is written; ``cancelled`` when the statement met a cancel request."""
        return _CANCELLED_END if cancelled else End(self.fate, self.reason, self.dead_reason)


@record
class Charge:
    """What ``decide`` needs to know about the leased job."""

    lease: Lease
    max_retries: int
    counters: Counters
    policy: RetryPolicy


def decide(  # noqa: PLR0911 - one line per outcome is the table
    charge: Charge, outcome: Outcome, *, crash_limit: int, jitter: float
) -> Settlement:
    """Turn an outcome into a settlement. ``jitter`` is a uniform draw from [0, 1)."""
    match outcome:
        case Completed(result, truncated):
            return Settlement(
                charge.lease,
                Fate.DONE,
                Reason.COMPLETED,
                result=result,
                result_truncated=truncated,
                counters=_reported(charge),
            )
        case Failed(error, reason):
            return _failed(charge, reason, error, jitter)
        case Refused(error):
            return _dead(charge, Reason.REFUSED, Reason.REFUSED, _reported(charge), error)
        case Postponed(delay_s, detail):
            kept = _reported(charge)
            return _wait(charge, Reason.RETRY_LATER, bounded_delay(delay_s), kept, detail)
        case Released(detail):
            return _ready(charge, Reason.RELEASED, charge.counters, detail)
        case Unhandled(detail):
            return _unhandled(charge, detail)
        case Cancelled(detail):
            return _dead(charge, Reason.CANCELLED, Reason.CANCELLED, _reported(charge), detail)
        case LeaseExpired():
            return _expired(charge, outcome, crash_limit, jitter)
        case Expired():
            return _dead(charge, Reason.TTL_EXPIRED, Reason.TTL_EXPIRED, charge.counters, "")


def _failed(charge: Charge, reason: Reason, error: str, jitter: float) -> Settlement:
    counters = charge.counters if reason is Reason.ASSIGNMENT_TIMEOUT else _reported(charge)
    return _retry(charge, reason, counters, error, jitter)


def _retry(
    charge: Charge, reason: Reason, counters: Counters, detail: str, jitter: float
) -> Settlement:
    retries = charge.counters.retries
    if retries >= charge.max_retries:
        return _dead(charge, reason, Reason.RETRIES_EXHAUSTED, counters, detail)
    charged = Counters(retries + 1, counters.crashes, counters.handbacks, counters.unhandled)
    return _wait(charge, reason, retry_delay(charge.policy, retries, jitter), charged, detail)


def _expired(charge: Charge, outcome: LeaseExpired, crash_limit: int, jitter: float) -> Settlement:
    old, running, detail = charge.counters, outcome.running, outcome.detail
    handbacks = 0 if running else old.handbacks + 1
    crashed = running or handbacks >= HANDBACK_LIMIT
    crashes = old.crashes + int(crashed)
    counters = Counters(old.retries, crashes, 0 if crashed else handbacks, old.unhandled)
    if crashed and crashes >= crash_limit:
        return _dead(charge, Reason.LEASE_EXPIRED, Reason.CRASH_LIMIT, counters, detail)
    if running:
        return _retry(charge, Reason.LEASE_EXPIRED, counters, detail, jitter)
    return _ready(charge, Reason.LEASE_EXPIRED, counters, detail)


def _unhandled(charge: Charge, detail: str) -> Settlement:
    old = charge.counters
    waits = RetryPolicy(NO_HANDLER_BASE_S, NO_HANDLER_MAX_S, 2.0)
    unhandled = min(old.unhandled + 1, UNHANDLED_LIMIT)
    counters = Counters(old.retries, old.crashes, old.handbacks, unhandled)
    return _wait(
        charge, Reason.NO_HANDLER, retry_delay(waits, old.unhandled, 0.0), counters, detail
    )


def _reported(charge: Charge) -> Counters:
    """Any reported outcome shows that the job does not kill its workers."""
    retries = charge.counters.retries
    return Counters(retries) if retries else _NO_COST


def _wait(
    charge: Charge, reason: Reason, delay_s: float, counters: Counters, detail: str
) -> Settlement:
    return Settlement(
        charge.lease, Fate.WAIT, reason, delay_s=delay_s, counters=counters, detail=detail or None
    )


def _ready(charge: Charge, reason: Reason, counters: Counters, detail: str) -> Settlement:
    return Settlement(charge.lease, Fate.READY, reason, counters=counters, detail=detail or None)


def _dead(
    charge: Charge, reason: Reason, dead_reason: Reason, counters: Counters, detail: str
) -> Settlement:
    return Settlement(
        charge.lease, Fate.DEAD, reason, dead_reason, counters=counters, detail=detail or None
    )
