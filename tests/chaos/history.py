"""What happened to jobs, as those who took part saw it: the database, Kafka, handlers, callers.

Plain values, so that a history can be read from a system or be made up by a test.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

T = TypeVar("T", "Event", "Run")

NOTES = "CHAOS_NOTES"
"""The variable that names the folder of the handlers' notes."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of ``job_event_log``. ``at`` is in seconds, of the database's clock."""

    eid: int
    job: str
    seq: int
    from_status: str | None
    to_status: str
    at: float
    reason: str
    attempt: int = 0
    token: int | None = None
    worker: str | None = None
    detail: str = ""

    @property
    def move(self) -> tuple[str | None, str]:
        """From where to where."""
        return self.from_status, self.to_status


@dataclass(frozen=True, slots=True)
class Row:
    """A job as the tables have it at the end. Times in seconds; None: not limited, not set."""

    job: str
    queue: str
    status: str
    seq: int
    attempt: int = 0
    retries: int = 0
    max_retries: int = 3
    created_at: float = 0.0
    not_before: float | None = None
    ttl_s: float | None = None
    key: str | None = None
    ref: str = ""
    result: str | None = None
    by_holder: bool = True
    """Whether its end was written for the one who held the lease, not for the reaper."""


@dataclass(frozen=True, slots=True)
class Call:
    """A submission as its caller knows it: one logical job, whoever had to repeat it.

    ``ref`` is in the payload, so that the row can be found whatever the answer was. ``job`` is the
    id that was answered; None: no answer came, so there may be a job or none. Times are by the
    machine's clock, which the database shares here; what is None was not sent, or not heard.
    """

    ref: str
    job: str | None
    key: str | None = None
    delay_s: float | None = None
    ttl_s: float | None = None
    max_retries: int | None = None
    sent_at: float = 0.0
    heard_at: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A handler's own note that it was entered; ``nonce`` is in the result it returns.

    ``last_seen_at`` is when it last wrote that it is alive, by the machine's clock, which the
    database shares here. ``returned`` tells whether it came to its end.
    """

    job: str
    attempt: int
    nonce: str
    begun_at: float
    last_seen_at: float
    returned: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """One event as it arrived in Kafka."""

    eid: int
    job: str
    seq: int
    to_status: str


@dataclass(frozen=True, slots=True)
class Stop:
    """A time in which a worker and all that it started stood still, by the machine's clock."""

    worker: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Rules:
    """What the system was told, and what bounds its own doings."""

    lease_s: float
    crash_limit: int = 3
    max_running: Mapping[str, int] = field(default_factory=dict)
    backoff_s: float = 0.0
    """How long who was charged a retry waits at least."""
    max_retries: int = 3
    """Of jobs that were sent without a number of their own."""


SLACK_S = 0.25
"""How far times that two processes read of one clock may seem to be in the wrong order."""

SAME_STATEMENT_S = 0.05
"""The clock is read for the lease and for the event of a claim, one after the other."""


@dataclass(frozen=True, slots=True)
class History:
    """All of it. ``published`` None: Kafka is not part of the system."""

    rules: Rules
    rows: Sequence[Row]
    events: Sequence[Event]
    calls: Sequence[Call] = ()
    runs: Sequence[Run] = ()
    published: Sequence[Published] | None = None
    alive: Sequence[str] = ()
    """Nonces of attempts of which a process lives at the end."""
    promised: Mapping[int, float] = field(default_factory=dict)
    """Until when a lease was to last by its last renewal, by token."""
    stops: Sequence[Stop] = ()

    @property
    def reasons(self) -> Counter[str]:
        """How often jobs moved for which reason."""
        return Counter(event.reason for event in self.events)

    @property
    def renewed(self) -> int:
        """How many jobs were completed under a lease that was older than one lasts unrenewed."""
        held = (held for tale in self.by_job().values() for held in tale.leases())
        return sum(
            each.end is not None
            and each.end.reason == "COMPLETED"
            and each.end.at - (each.start or each.claim).at > self.rules.lease_s
            for each in held
        )

    @property
    def renewed_and_lost(self) -> int:
        """How many leases ran out that had been renewed."""
        lost = (event for event in self.events if event.reason == "LEASE_EXPIRED")
        return sum(event.token in self.promised for event in lost)

    @property
    def awaited(self) -> int:
        """How many jobs were sent with a delay and claimed in spite of it."""
        delayed = (t for t in self.by_job().values() if t.row and t.row.not_before is not None)
        return sum(any(e.to_status == "ASSIGNED" for e in t.stretches()[0]) for t in delayed)

    def by_job(self) -> "Mapping[str, Tale]":
        """Return each job's share: its row, its events in order, its runs in order."""
        rows = {row.job: row for row in self.rows}
        events = _grouped(self.events, "seq")
        runs = _grouped(self.runs, "begun_at")
        return {
            job: Tale(job, rows.get(job), events.get(job, []), runs.get(job, []))
            for job in rows.keys() | events.keys() | runs.keys()
        }


@dataclass(frozen=True, slots=True)
class Tale:
    """What is known of one job."""

    job: str
    row: Row | None
    events: Sequence[Event]
    runs: Sequence[Run]

    def lives(self) -> list[list[Event]]:
        """Cut the events where an operator revived the job."""
        lives: list[list[Event]] = []
        for event in self.events:
            revived = event.move == ("DEAD_LETTERED", "PENDING")
            if not lives or (revived and event.reason == "OPERATOR_RETRY"):
                lives.append([])
            lives[-1].append(event)
        return lives

    def stretches(self) -> list[list[Event]]:
        """Cut the events where an operator set the counters to 0: in the middle of a life, too."""
        stretches: list[list[Event]] = [[]]
        for event in self.events:
            if event.reason == "OPERATOR_RETRY":
                stretches.append([])
            stretches[-1].append(event)
        return stretches

    def leases(self) -> "list[Held]":
        """Return the times under a lease: from ASSIGNED to the next move out of it."""
        held: list[Held] = []
        for event in self.events:
            if event.to_status == "ASSIGNED":
                held.append(Held(event, None, None))
            elif held and event.to_status == "RUNNING":
                held[-1] = Held(held[-1].claim, event, None)
            elif held and held[-1].end is None:
                held[-1] = Held(held[-1].claim, held[-1].start, event)
        return held


@dataclass(frozen=True, slots=True)
class Held:
    """One lease: its claim, its start and what ended it, as far as they came."""

    claim: Event
    start: Event | None
    end: Event | None

    def may_have_run(self, run: Run) -> bool:
        """Tell whether a run is of this lease. Attempts are counted anew in each life."""
        if self.start is None or self.start.attempt != run.attempt:
            return False
        until = float("inf") if self.end is None else self.end.at
        return self.start.at - SLACK_S <= run.begun_at <= until + SLACK_S


def _grouped(items: Iterable[T], order: str) -> dict[str, list[T]]:
    ordered = sorted(items, key=attrgetter("job", order))
    return {job: list(each) for job, each in groupby(ordered, key=attrgetter("job"))}
