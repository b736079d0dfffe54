"""What must be true of the moves of a job: their way, their reasons, and what they cost."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tests.chaos.history import SAME_STATEMENT_S, Event, History, Tale

_OF_ATTEMPTS = ("HANDLER_FAILED", "TIMED_OUT", "RETRY_LATER", "REFUSED", "CANCELLED")
_OF_OTHERS = ("ASSIGNMENT_TIMEOUT", "NO_HANDLER", "TTL_EXPIRED")
_AT_LAST = ("RETRIES_EXHAUSTED", "CRASH_LIMIT", "REFUSED", "CANCELLED", "TTL_EXPIRED")

REASONS: Mapping[tuple[str | None, str], frozenset[str]] = {
    (None, "PENDING"): frozenset({"SUBMITTED"}),
    ("PENDING", "ASSIGNED"): frozenset({"CLAIMED"}),
    ("ASSIGNED", "RUNNING"): frozenset({"STARTED"}),
    ("RUNNING", "DONE"): frozenset({"COMPLETED"}),
    ("RUNNING", "FAILED"): frozenset({*_OF_ATTEMPTS, "LEASE_EXPIRED", "RELEASED"}),
    ("ASSIGNED", "FAILED"): frozenset({*_OF_OTHERS, "LEASE_EXPIRED", "RELEASED"}),
    ("FAILED", "PENDING"): frozenset({"RETRY_DUE", "RELEASED", "LEASE_EXPIRED", "OPERATOR_RETRY"}),
    ("FAILED", "DEAD_LETTERED"): frozenset(_AT_LAST),
    ("PENDING", "DEAD_LETTERED"): frozenset({"CANCELLED", "TTL_EXPIRED"}),
    ("ASSIGNED", "DEAD_LETTERED"): frozenset({"CANCELLED"}),
    ("DEAD_LETTERED", "PENDING"): frozenset({"OPERATOR_RETRY"}),
}
"""The published graph, written down again: the product's own tables are what is on trial."""

_WAITED = ("RETRY_DUE", "OPERATOR_RETRY", "CANCELLED")
_CHARGED = ("RETRIES_EXHAUSTED", *_WAITED)
FOLLOWING: Mapping[tuple[str | None, str], frozenset[str]] = {
    ("RUNNING", "HANDLER_FAILED"): frozenset(_CHARGED),
    ("RUNNING", "TIMED_OUT"): frozenset(_CHARGED),
    ("RUNNING", "LEASE_EXPIRED"): frozenset({*_CHARGED, "CRASH_LIMIT"}),
    ("RUNNING", "RETRY_LATER"): frozenset(_WAITED),
    ("RUNNING", "REFUSED"): frozenset({"REFUSED"}),
    ("RUNNING", "CANCELLED"): frozenset({"CANCELLED"}),
    ("RUNNING", "RELEASED"): frozenset({"RELEASED"}),
    ("ASSIGNED", "RELEASED"): frozenset({"RELEASED"}),
    ("ASSIGNED", "LEASE_EXPIRED"): frozenset({"LEASE_EXPIRED", "CRASH_LIMIT"}),
    ("ASSIGNED", "ASSIGNMENT_TIMEOUT"): frozenset({*_CHARGED, "TTL_EXPIRED"}),
    ("ASSIGNED", "NO_HANDLER"): frozenset({*_WAITED, "TTL_EXPIRED"}),
    ("ASSIGNED", "TTL_EXPIRED"): frozenset({"TTL_EXPIRED"}),
}
"""Why a job goes on that FAILED, by from where and why it did."""

CHARGED = frozenset({"HANDLER_FAILED", "TIMED_OUT", "ASSIGNMENT_TIMEOUT"})
"""What costs a retry whatever the lease was; LEASE_EXPIRED does so while RUNNING."""

REPORTED = frozenset(
    {"COMPLETED", "HANDLER_FAILED", "TIMED_OUT", "RETRY_LATER", "REFUSED", "CANCELLED"}
)
"""Ends that a worker tells of: only of them the attempt is known to be over."""

HANDBACKS = 10
"""So many leases that are lost in a row before their start are a crash."""


def goes_a_legal_way(tale: Tale, _: History) -> Iterator[str]:
    """I5: each move starts where the last one ended, and is one of the graph."""
    before: str | None = None
    for event in tale.events:
        if event.from_status != before:
            yield f"sequence {event.seq} is from {event.from_status}, the job was {before}"
        if event.move not in REASONS:
            yield f"sequence {event.seq} is {event.from_status} to {event.to_status}"
        before = event.to_status


def moves_for_a_reason(tale: Tale, _: History) -> Iterator[str]:
    """I5: each move has a reason that leads there, and goes on as the failure before it demands."""
    for event in tale.events:
        if event.reason not in REASONS.get(event.move, {event.reason}):
            yield f"{event.from_status} to {event.to_status} by {event.reason}"
    for failed, after in pairwise(tale.events):
        following = FOLLOWING.get((failed.from_status, failed.reason), {after.reason})
        if failed.to_status == "FAILED" and after.reason not in following:
            yield f"{after.reason} after {failed.from_status} {failed.reason}"


def is_charged_what_it_cost(tale: Tale, _: History) -> Iterator[str]:
    """I6: retries are what charged ends add up to, and never more than allowed."""
    if tale.row is None or not tale.events:
        return
    for stretch in tale.stretches():
        charges = sum(map(charged, stretch))
        if charges > tale.row.max_retries + 1:
            yield f"{charges} attempts were charged, {tale.row.max_retries + 1} are allowed"
    charges = sum(map(_charged_and_retried, _with_next(tale.stretches()[-1])))
    if charges != tale.row.retries:
        yield f"retry_count is {tale.row.retries}, its events charge {charges}"


def is_dead_when_its_retries_are_used_up(tale: Tale, _: History) -> Iterator[str]:
    """I6: the first charged end that has no retry left is the last, and no other one is."""
    if tale.row is None:
        return
    charges, allowed = 0, tale.row.max_retries
    for event, after in pairwise(tale.events):
        charges = 0 if event.reason == "OPERATOR_RETRY" else charges + charged(event)
        used_up = charged(event) and charges > allowed
        if used_up and after.reason not in {"RETRIES_EXHAUSTED", "CRASH_LIMIT"}:
            yield f"{after.reason} after {charges} charged attempts, {allowed + 1} are allowed"
        if after.reason == "RETRIES_EXHAUSTED" and not used_up:
            yield f"exhausted after {charges} charged attempts, {allowed + 1} are allowed"


def crashes_stop_at_their_limit(tale: Tale, history: History) -> Iterator[str]:
    """I6: a job that kills its workers is stopped by the limit, not later and not sooner."""
    limit = history.rules.crash_limit
    for event, crashes in _with_crashes(tale.events):
        if event.to_status == "ASSIGNED" and crashes >= limit:
            yield f"claimed after {crashes} crashes in a row"
        if event.reason == "CRASH_LIMIT" and crashes < limit:
            yield f"stopped by the crash limit after {crashes} crashes"


def lives_its_time(tale: Tale, _: History) -> Iterator[str]:
    """I8: a time to live ends what was never started in it, and that neither late nor early."""
    if tale.row is None:
        return
    for stretch, over in _timed(tale):
        start = next((event for event in stretch if event.to_status == "RUNNING"), None)
        end = next((event for event in stretch if event.reason == "TTL_EXPIRED"), None)
        if start and start.at > over + SAME_STATEMENT_S:
            yield f"started {start.at - over:.3f} s after its time to live"
        if end and end.at < over - SAME_STATEMENT_S:
            yield f"out of time {over - end.at:.3f} s before its time to live is over"
        if start and end:
            yield "out of time though it was started"


def charged(event: Event) -> bool:
    """Tell whether an attempt ended here and cost a retry."""
    expired = event.reason == "LEASE_EXPIRED" and event.from_status == "RUNNING"
    return event.to_status == "FAILED" and (expired or event.reason in CHARGED)


def _charged_and_retried(pair: tuple[Event, Event | None]) -> bool:
    """Tell whether an end cost a retry: the last one, which had none left, did not."""
    event, after = pair
    dead = after is not None and after.to_status == "DEAD_LETTERED"
    waited = dead and after is not None and after.reason in {"CANCELLED", "TTL_EXPIRED"}
    return charged(event) and (not dead or waited)


def _with_next(events: Sequence[Event]) -> Iterator[tuple[Event, Event | None]]:
    return zip(events, [*events[1:], None], strict=True)


def _with_crashes(events: Sequence[Event]) -> Iterator[tuple[Event, int]]:
    """Give each event the number of crashes in a row up to it."""
    crashes = handbacks = 0
    for event in events:
        if event.reason == "OPERATOR_RETRY" or event.reason in REPORTED:
            crashes = handbacks = 0
        elif event.to_status == "RUNNING":
            handbacks = 0
        elif event.to_status == "FAILED" and event.reason == "LEASE_EXPIRED":
            handbacks += event.from_status == "ASSIGNED"
            if event.from_status == "RUNNING" or handbacks == HANDBACKS:
                crashes, handbacks = crashes + 1, 0
        yield event, crashes


def _timed(tale: Tale) -> Iterator[tuple[Sequence[Event], float]]:
    """Cut the events where a time to live counts anew, and say when each is over."""
    row = tale.row
    assert row is not None
    lasts_s = float("inf") if row.ttl_s is None else row.ttl_s
    first, *others = tale.stretches()
    yield first, max(row.created_at, row.not_before or 0.0) + lasts_s
    yield from ((stretch, stretch[0].at + lasts_s) for stretch in others)
