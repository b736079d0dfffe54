"""Histories that are made up: a small one in which all is well, and how to spoil it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.chaos.history import SLACK_S, Call, Event, History, Published, Row, Rules, Run, Stop
from tests.chaos.rules_of_reasons import HANDBACKS

LEASE_S = 2.0
RULES = Rules(lease_s=LEASE_S, max_running={"narrow": 1}, backoff_s=0.05)

STOPS = (Stop("w", 1.0, 40.0), Stop("w", 45.0, 85.0))

PENDING, ASSIGNED, RUNNING = "PENDING", "ASSIGNED", "RUNNING"
DONE, FAILED, DEAD = "DONE", "FAILED", "DEAD_LETTERED"
TOLD = ("HANDLER_FAILED", "RETRY_LATER", "REFUSED")
"""Ends of which the record has what the attempt raised."""


class Story:
    """Tells one job, move by move; time goes on by a tenth of a second each."""

    def __init__(self, job: str, first_eid: int, begins_at: float = 0.0) -> None:
        self.job = job
        self.events: list[Event] = []
        self.runs: list[Run] = []
        self._eid = first_eid
        self._now = begins_at
        self._token: int | None = None
        self._attempt = 0
        self.submitted_at = begins_at
        self._move(PENDING, "SUBMITTED")

    @property
    def status(self) -> str:
        """Where it is now."""
        return self.events[-1].to_status

    def waits_until(self, at: float) -> "Story":
        """Let time pass."""
        self._now = at
        return self

    def is_claimed(self) -> "Story":
        """Claim, and do not start."""
        self._token = self._eid
        self._move(ASSIGNED, "CLAIMED", worker="w")
        return self

    def runs_to(self, *ends: tuple[str, str]) -> "Story":
        """Claim, start, run, and move to each of ``ends`` (status, reason)."""
        self.is_claimed()
        self._attempt += 1
        self._move(RUNNING, "STARTED", worker="w")
        self._run(returned=(DONE, "COMPLETED") in ends)
        for status, why in ends:
            self.goes(status, why)
        return self

    def goes(self, status: str, reason: str, after_s: float = 0.0) -> "Story":
        """Move once."""
        self._now += after_s
        self._move(status, reason)
        if self.events[-1].move == (DEAD, PENDING):
            self._attempt = 0
        return self

    def _run(self, *, returned: bool) -> None:
        nonce = f"{self.job}/{self._attempt}"
        seen = self._now + 0.05
        self.runs.append(Run(self.job, self._attempt, nonce, self._now, seen, returned))

    def _move(self, status: str, reason: str, worker: str | None = None) -> None:
        before = self.events[-1].to_status if self.events else None
        held = before in (ASSIGNED, RUNNING) or status == ASSIGNED
        self._now += 0.1
        self.events.append(
            Event(
                self._eid,
                self.job,
                len(self.events) + 1,
                before,
                status,
                self._now,
                reason,
                self._attempt,
                self._token if held else None,
                worker,
                self.runs[-1].nonce if status == FAILED and reason in TOLD else "",
            )
        )
        self._eid += 1


def _row(story: Story, queue: str, **fields: object) -> Row:
    row = Row(
        story.job,
        queue,
        story.status,
        len(story.events),
        attempt=sum(event.to_status == RUNNING for event in story.events),
        created_at=story.submitted_at,
        ref=f"ref-{story.job}",
        result=story.runs[-1].nonce if story.status == DONE else None,
    )
    return replace(row, **fields)  # type: ignore[arg-type]


def _call(row: Row) -> Call:
    """Return what the caller knows who submitted a job as it is in the tables."""
    delay_s = None if row.not_before is None else row.not_before - row.created_at
    times = row.created_at, row.created_at + 0.1
    return Call(row.ref, row.job, row.key, delay_s, row.ttl_s, row.max_retries, *times)


def good() -> History:
    """Return a history with most of what can happen to jobs, and nothing wrong in it."""
    plain = Story("plain", 100).runs_to((DONE, "COMPLETED"))
    failing = Story("failing", 200).runs_to((FAILED, "HANDLER_FAILED"), (PENDING, "RETRY_DUE"))
    failing.runs_to((DONE, "COMPLETED"))
    crashed = Story("crashed", 300)
    crashed.runs_to().goes(FAILED, "LEASE_EXPIRED", LEASE_S).goes(PENDING, "RETRY_DUE")
    crashed.runs_to((FAILED, "RELEASED"), (PENDING, "RELEASED")).runs_to((DONE, "COMPLETED"))
    spent = Story("spent", 400)
    spent.runs_to((FAILED, "HANDLER_FAILED"), (DEAD, "RETRIES_EXHAUSTED"))
    helped = Story("helped", 1000)
    helped.runs_to((FAILED, "HANDLER_FAILED"), (PENDING, "OPERATOR_RETRY"))
    helped.runs_to((FAILED, "HANDLER_FAILED"), (PENDING, "RETRY_DUE"))
    helped.runs_to((FAILED, "HANDLER_FAILED"), (DEAD, "RETRIES_EXHAUSTED"))
    killer = Story("killer", 500)
    for end in ((PENDING, "RETRY_DUE"), (PENDING, "RETRY_DUE"), (DEAD, "CRASH_LIMIT")):
        killer.runs_to().goes(FAILED, "LEASE_EXPIRED", LEASE_S).goes(*end)
    late = Story("late", 600).goes(DEAD, "TTL_EXPIRED", 1.0)
    delayed = Story("delayed", 700).waits_until(5.0).runs_to((DONE, "COMPLETED"))
    first = Story("first", 800).runs_to((DONE, "COMPLETED"))
    second = Story("second", 900, begins_at=1.0).runs_to((DONE, "COMPLETED"))
    patient, unwanted = _patient(), Story("unwanted", 1200).goes(DEAD, "CANCELLED")
    refused = Story("refused", 1300).runs_to((FAILED, "REFUSED"), (DEAD, "REFUSED"))
    stories = [
        *(plain, failing, crashed, spent, killer, late, delayed, first, second),
        *(helped, patient, unwanted, refused),
    ]
    rows = [
        _row(plain, "q", key="key"),
        _row(failing, "q", retries=1),
        _row(crashed, "q", retries=1),
        _row(spent, "q", max_retries=0),
        _row(killer, "q", retries=2),
        _row(late, "q", ttl_s=1.0),
        _row(delayed, "q", not_before=5.0, ttl_s=2.0),
        _row(first, "narrow"),
        _row(second, "narrow"),
        _row(helped, "q", max_retries=1, retries=1),
        _row(patient, "q", retries=1),
        _row(unwanted, "q"),
        _row(refused, "q"),
    ]
    calls = [_call(row) for row in rows]
    calls.append(Call("again", "plain", "key"))
    calls.append(Call("unknown", None))
    events = [event for story in stories for event in story.events]
    published = _published(events)
    runs = [run for story in stories for run in story.runs]
    promised = {killer.events[1].token or 0: killer.events[3].at}
    return History(RULES, rows, events, calls, runs, published, promised=promised)


def _published(events: Sequence[Event]) -> Sequence[Published]:
    """Return what a relay sends that took over: it sends what it cannot know to be there."""
    published = [Published(e.eid, e.job, e.seq, e.to_status) for e in events]
    return [*published, *published[-3:]]


def _patient() -> Story:
    """Tell of a job that had two other ends before it was done, under a lease that was renewed."""
    story = Story("patient", 1100).runs_to((FAILED, "TIMED_OUT"), (PENDING, "RETRY_DUE"))
    story.runs_to((FAILED, "RETRY_LATER"), (PENDING, "RETRY_DUE")).runs_to()
    story.goes(DONE, "COMPLETED", LEASE_S)
    story.runs[-1] = replace(story.runs[-1], returned=True)
    return story


def rare() -> History:
    """Return a history of what comes seldom and is right, without callers and without Kafka."""
    stories, rows = zip(*_lost(), *_charged(), *_retried(), strict=True)
    events = [event for story in stories for event in story.events]
    runs = [run for story in stories for run in story.runs]
    return History(RULES, rows, events, runs=runs, stops=STOPS)


def _lost() -> Iterator[tuple[Story, Row]]:
    """Leases that were lost, also before a start, and attempts that lived on meanwhile."""
    unstarted = Story("unstarted", 100, begins_at=50.0)
    for _ in range(RULES.crash_limit):
        unstarted.is_claimed().goes(FAILED, "LEASE_EXPIRED", LEASE_S)
        unstarted.goes(PENDING, "LEASE_EXPIRED")
    yield unstarted.runs_to((DONE, "COMPLETED")), _row(unstarted, "q")
    handed_back = Story("handed_back", 200)
    for left in reversed(range(RULES.crash_limit * HANDBACKS)):
        handed_back.is_claimed().goes(FAILED, "LEASE_EXPIRED", LEASE_S - 0.12)
        handed_back.goes(*((PENDING, "LEASE_EXPIRED") if left else (DEAD, "CRASH_LIMIT")))
    yield handed_back, _row(handed_back, "q")
    slow = Story("slow", 300).runs_to().goes(FAILED, "LEASE_EXPIRED", LEASE_S)
    slow.goes(PENDING, "RETRY_DUE").runs_to((DONE, "COMPLETED"))
    slow.runs[0] = replace(slow.runs[0], last_seen_at=90.0)
    slow.runs[1] = replace(slow.runs[1], last_seen_at=slow.events[-1].at + SLACK_S / 2)
    yield slow, _row(slow, "q", retries=1)


def _charged() -> Iterator[tuple[Story, Row]]:
    """Ends of every kind, what they cost, and what they do not."""
    costly = Story("costly", 400).runs_to((FAILED, "TIMED_OUT"), (PENDING, "RETRY_DUE"))
    costly.is_claimed().goes(FAILED, "ASSIGNMENT_TIMEOUT").goes(PENDING, "RETRY_DUE")
    costly.runs_to((FAILED, "RETRY_LATER"), (PENDING, "RETRY_DUE"))
    costly.runs_to((FAILED, "HANDLER_FAILED"), (DEAD, "CANCELLED"))
    yield costly, _row(costly, "q", retries=3)
    restless = Story("restless", 500)
    for _ in range(RULES.crash_limit):
        restless.runs_to((FAILED, "RELEASED"), (PENDING, "RELEASED"))
    yield restless.runs_to((DONE, "COMPLETED")), _row(restless, "q")
    mixed = Story("mixed", 600)
    for reason in ("LEASE_EXPIRED", "LEASE_EXPIRED", "HANDLER_FAILED", "LEASE_EXPIRED"):
        mixed.runs_to().goes(FAILED, reason, LEASE_S).goes(PENDING, "RETRY_DUE")
    yield mixed.runs_to((DONE, "COMPLETED")), _row(mixed, "q", retries=4, max_retries=9)


def _retried() -> Iterator[tuple[Story, Row]]:
    """What operators do, and two moves in one instant."""
    cancelled = Story("cancelled", 700).is_claimed().goes(DEAD, "CANCELLED")
    cancelled.events[-1] = replace(cancelled.events[-1], token=None)  # an operator has none
    yield cancelled, _row(cancelled, "q", not_before=cancelled.events[1].at)
    hurried = Story("hurried", 800).is_claimed().goes(FAILED, "NO_HANDLER")
    hurried.goes(PENDING, "OPERATOR_RETRY", 5.0)
    hurried.runs_to((FAILED, "HANDLER_FAILED"), (PENDING, "OPERATOR_RETRY"))
    hurried.runs_to((DONE, "COMPLETED"))
    yield hurried, _row(hurried, "q", ttl_s=1.0)
    revived = Story("revived", 900)
    for end in ((PENDING, "RETRY_DUE"), (PENDING, "RETRY_DUE"), (DEAD, "CRASH_LIMIT")):
        revived.runs_to().goes(FAILED, "LEASE_EXPIRED", LEASE_S).goes(*end)
    revived.goes(PENDING, "OPERATOR_RETRY").runs_to((DONE, "COMPLETED"))
    revived.runs[0] = replace(revived.runs[0], nonce="stray", last_seen_at=90.0)
    for here in (-3, -2):  # claimed as soon as it was ready, and started by the claim
        revived.events[here] = replace(revived.events[here], at=revived.events[-4].at)
    yield revived, _row(revived, "q", attempt=1)
