"""What must be true of each job: of its events, its row and its runs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tests.chaos.history import SLACK_S, Event, Held, History, Run, Tale

LEGAL = frozenset(
    {
        (None, "PENDING"),
        ("PENDING", "ASSIGNED"),
        ("ASSIGNED", "RUNNING"),
        ("RUNNING", "DONE"),
        ("RUNNING", "FAILED"),
        ("ASSIGNED", "FAILED"),
        ("FAILED", "PENDING"),
        ("FAILED", "DEAD_LETTERED"),
        ("PENDING", "DEAD_LETTERED"),
        ("ASSIGNED", "DEAD_LETTERED"),
        ("DEAD_LETTERED", "PENDING"),
    }
)
"""The published graph, written down again: the product's own table is what is on trial."""

TERMINAL = frozenset({"DONE", "DEAD_LETTERED"})
CHARGED = frozenset({"HANDLER_FAILED", "TIMED_OUT", "ASSIGNMENT_TIMEOUT"})
"""What costs a retry whatever the lease was; LEASE_EXPIRED does so while RUNNING."""

REPORTED = frozenset(
    {"COMPLETED", "HANDLER_FAILED", "TIMED_OUT", "RETRY_LATER", "REFUSED", "CANCELLED"}
)
"""Ends that a worker tells of: only of them the attempt is known to be over."""

AGAIN = frozenset(
    {
        *("LEASE_EXPIRED", "RELEASED", "HANDLER_FAILED", "TIMED_OUT", "RETRY_LATER"),
        *("ASSIGNMENT_TIMEOUT", "NO_HANDLER"),
    }
)
"""Ends after which the same life may have another lease."""


def has_a_row_and_a_beginning(tale: Tale, _: History) -> Iterator[str]:
    """I1: a job is a row and events that begin with its submission."""
    if tale.row is None:
        yield "events or runs of a job that has no row"
    if not tale.events or tale.events[0].move != (None, "PENDING"):
        yield "it was never submitted"


def is_over(tale: Tale, _: History) -> Iterator[str]:
    """I2: when all is quiet, every job has ended."""
    if tale.row is not None and tale.row.status not in TERMINAL:
        yield f"it is {tale.row.status} at the end"


def has_one_end_a_life(tale: Tale, _: History) -> Iterator[str]:
    """I3: at most one outcome a life, and nothing behind it."""
    for life in tale.lives():
        ends = [event for event in life if event.to_status in TERMINAL]
        if len(ends) > 1:
            yield f"{len(ends)} outcomes in one life"
        if ends and life[-1] is not ends[0]:
            yield f"{life[-1].to_status} after {ends[0].to_status}"


def is_held_once_at_a_time(tale: Tale, _: History) -> Iterator[str]:
    """I4: tokens grow and never come again; one lease ends before the next begins."""
    leases = tale.leases()
    for earlier, later in pairwise(leases):
        if _token(later.claim) <= _token(earlier.claim):
            yield f"token {later.claim.token} was claimed after {earlier.claim.token}"
        if earlier.end is None:
            yield f"claimed again while token {earlier.claim.token} held it"
        elif later.claim.at < earlier.end.at:
            yield "two leases overlap"


def is_held_again_for_a_cause(tale: Tale, _: History) -> Iterator[str]:
    """I4: within a life a lease follows another one only after an end that allows it."""
    for life in tale.lives():
        for earlier in replace(tale, events=life).leases()[:-1]:
            if earlier.end is not None and earlier.end.reason not in AGAIN:
                yield f"held again after {earlier.end.reason}"


def is_taken_back_in_time_only(tale: Tale, history: History) -> Iterator[str]:
    """I4: nobody loses a lease before its time."""
    for held in tale.leases():
        if held.end is None or held.end.reason != "LEASE_EXPIRED":
            continue
        lasted = held.end.at - held.claim.at
        if lasted < history.rules.lease_s - _SAME_STATEMENT_S:
            yield f"the lease of token {held.claim.token} expired after {lasted:.3f} s"


def goes_a_legal_way(tale: Tale, _: History) -> Iterator[str]:
    """I5: each move starts where the last one ended, and is one of the graph."""
    before: str | None = None
    for event in tale.events:
        if event.from_status != before:
            yield f"sequence {event.seq} is from {event.from_status}, the job was {before}"
        if event.move not in LEGAL:
            yield f"sequence {event.seq} is {event.from_status} to {event.to_status}"
        before = event.to_status


def is_where_its_events_lead(tale: Tale, _: History) -> Iterator[str]:
    """I5: the row is the fold of the events."""
    if tale.row is None or not tale.events:
        return
    life, row = tale.lives()[-1], tale.row
    starts = sum(event.to_status == "RUNNING" for event in life)
    folded = (life[-1].to_status, life[-1].seq, starts)
    stored = (row.status, row.seq, row.attempt)
    if folded != stored:
        yield f"(status, sequence, attempt) are {stored}, the events say {folded}"


def is_charged_what_it_cost(tale: Tale, _: History) -> Iterator[str]:
    """I6: retries are what charged ends add up to, and never more than allowed."""
    if tale.row is None:
        return
    for stretch in tale.stretches():
        charges = sum(map(_charged, _ends(stretch)))
        if charges > tale.row.max_retries + 1:
            yield f"{charges} attempts were charged, {tale.row.max_retries + 1} are allowed"
    charges = sum(map(_charged_and_retried, _with_next(tale.stretches()[-1])))
    if charges != tale.row.retries:
        yield f"retry_count is {tale.row.retries}, its events charge {charges}"


def crashes_stop_at_their_limit(tale: Tale, history: History) -> Iterator[str]:
    """I6: a job that kills its workers is stopped by the limit, not later and not sooner."""
    crashes = 0
    for event in tale.events:
        if event.move == ("RUNNING", "FAILED"):
            crashes = crashes + 1 if event.reason == "LEASE_EXPIRED" else crashes
            crashes = 0 if event.reason in REPORTED else crashes
        elif event.reason == "OPERATOR_RETRY":
            crashes = 0
        elif event.to_status == "ASSIGNED" and crashes >= history.rules.crash_limit:
            yield f"claimed after {crashes} crashes in a row"
    last = tale.events[-1] if tale.events else None
    handed_back = any(e.move == ("ASSIGNED", "FAILED") for e in tale.events)
    stopped = last is not None and last.reason == "CRASH_LIMIT" and not handed_back
    if stopped and crashes < history.rules.crash_limit:
        yield f"stopped by the crash limit after {crashes} crashes"


def is_ended_by_its_holder(tale: Tale, _: History) -> Iterator[str]:
    """I7: start and outcome carry the token of the lease that was valid."""
    for held in tale.leases():
        by_operator = held.end is not None and held.end.move == ("ASSIGNED", "DEAD_LETTERED")
        for event in (held.start, None if by_operator else held.end):
            if event and event.token != held.claim.token:
                yield (f"{event.to_status} by token {event.token} under that of {held.claim.token}")
        if held.start and held.start.worker != held.claim.worker:
            yield f"started by {held.start.worker}, claimed by {held.claim.worker}"


def has_the_result_of_its_last_attempt(tale: Tale, _: History) -> Iterator[str]:
    """I7: what is recorded was returned by the attempt that held the job at the end."""
    row = tale.row
    if row is None or row.status != "DONE" or row.result is None:
        return
    by = next((run for run in tale.runs if run.nonce == row.result), None)
    if by is None:
        yield f"no attempt returned {row.result!r}"
    elif by.attempt != row.attempt:
        yield f"the result of attempt {by.attempt} is recorded for attempt {row.attempt}"


def does_not_start_when_it_may_not(tale: Tale, _: History) -> Iterator[str]:
    """I8, I9: no claim after an end, before it is due, or after its time to live."""
    if tale.row is None:
        return
    due = tale.row.not_before
    for event in tale.stretches()[0]:  # who retries a job wants it now
        if due is not None and event.to_status == "ASSIGNED" and event.at < due:
            yield f"claimed {due - event.at:.3f} s before it was due"
    late = _first_start_after_ttl(tale)
    if late is not None:
        yield f"started {late:.3f} s after its time to live"


def waits_its_backoff(tale: Tale, _: History) -> Iterator[str]:
    """I9: who was charged a retry is not claimed again in the same moment."""
    for failed, retried in pairwise(tale.events):
        waited = failed.to_status == "FAILED" and _charged(failed)
        if waited and retried.to_status == "PENDING" and retried.reason not in _AFTER_A_WAIT:
            yield f"PENDING by {retried.reason} after {failed.reason}"


def is_recorded_without_gaps(tale: Tale, _: History) -> Iterator[str]:
    """I10: sequences 1, 2, 3 …, times and ids that do not go back."""
    sequences = [event.seq for event in tale.events]
    if sequences != list(range(1, len(sequences) + 1)):
        yield f"sequences are {sequences}"
    for earlier, later in pairwise(tale.events):
        if later.at < earlier.at:
            yield f"sequence {later.seq} is older than {earlier.seq}"
        if later.eid <= earlier.eid:
            yield f"event {later.eid} comes after event {earlier.eid}"


def is_over_when_it_was_told_so(tale: Tale, history: History) -> Iterator[str]:
    """I15: nothing of an attempt is alive after its end was reported, nor when all is over."""
    for run in tale.runs:
        if run.nonce in history.alive:
            yield f"attempt {run.attempt} is alive"
    ends = {held.start.attempt: held.end for held in tale.leases() if held.start and held.end}
    if len(tale.lives()) > 1:
        return  # attempts are counted anew: which run is which cannot be told
    for run in tale.runs:
        end = ends.get(run.attempt)
        if end is None or end.reason not in REPORTED or _was_taken_over(tale, end):
            continue
        if run.last_seen_at > end.at + SLACK_S:
            late = run.last_seen_at - end.at
            yield f"attempt {run.attempt} was alive {late:.3f} s after {end.reason}"


def runs_are_starts(tale: Tale, _: History) -> Iterator[str]:
    """I17: each run is an attempt on record, once; what a handler brought about has run."""
    starts = Counter(event.attempt for event in tale.events if event.to_status == "RUNNING")
    runs = Counter(run.attempt for run in tale.runs)
    for attempt, times in runs.items():
        if times > starts[attempt]:
            yield f"attempt {attempt} ran {times} times, {starts[attempt]} starts are on record"
    for held in tale.leases():
        reason = held.end.reason if held.end else None
        if reason == "COMPLETED" and held.start and not _came_to_its_end(tale.runs, held):
            yield f"attempt {held.start.attempt} completed and never ran to its end"
        if reason in _BY_HANDLERS and held.start and not runs[held.start.attempt]:
            yield f"attempt {held.start.attempt} ended by {reason} and never ran"


OF_ONE_JOB: Sequence[tuple[str, Callable[[Tale, History], Iterator[str]]]] = (
    ("I1", has_a_row_and_a_beginning),
    ("I2", is_over),
    ("I3", has_one_end_a_life),
    ("I4", is_held_once_at_a_time),
    ("I4", is_held_again_for_a_cause),
    ("I4", is_taken_back_in_time_only),
    ("I5", goes_a_legal_way),
    ("I5", is_where_its_events_lead),
    ("I6", is_charged_what_it_cost),
    ("I6", crashes_stop_at_their_limit),
    ("I7", is_ended_by_its_holder),
    ("I7", has_the_result_of_its_last_attempt),
    ("I9", does_not_start_when_it_may_not),
    ("I9", waits_its_backoff),
    ("I10", is_recorded_without_gaps),
    ("I15", is_over_when_it_was_told_so),
    ("I17", runs_are_starts),
)

_SAME_STATEMENT_S = 0.05
"""The clock is read for the lease and for the event of a claim, one after the other."""

_BY_HANDLERS = frozenset({"HANDLER_FAILED", "RETRY_LATER"})
"""Ends that only a handler can have brought about."""

_AFTER_A_WAIT = frozenset({"RETRY_DUE", "OPERATOR_RETRY"})


def _token(event: Event) -> int:
    return event.token if event.token is not None else -1


def _ends(events: Sequence[Event]) -> Iterator[Event]:
    return (event for event in events if event.to_status == "FAILED")


def _charged(event: Event) -> bool:
    expired = event.reason == "LEASE_EXPIRED" and event.from_status == "RUNNING"
    return expired or event.reason in CHARGED


def _charged_and_retried(pair: tuple[Event, Event | None]) -> bool:
    """Tell whether an end cost a retry: the last one, which had none left, did not."""
    event, after = pair
    dead = after is not None and after.to_status == "DEAD_LETTERED"
    waited = dead and after is not None and after.reason in {"CANCELLED", "TTL_EXPIRED"}
    return event.to_status == "FAILED" and _charged(event) and (not dead or waited)


def _with_next(events: Sequence[Event]) -> Iterator[tuple[Event, Event | None]]:
    return zip(events, [*events[1:], None], strict=True)


def _first_start_after_ttl(tale: Tale) -> float | None:
    """Return by how much a job that was never started outlived its TTL before it was."""
    row = tale.row
    if row is None or row.ttl_s is None:
        return None
    life = tale.lives()[0] if tale.events else []
    if any(event.reason == "OPERATOR_RETRY" for event in tale.events):
        return None  # it counts anew from there; the property tests look at that
    start = next((event for event in life if event.to_status == "RUNNING"), None)
    if start is None:
        return None
    late = start.at - (max(row.created_at, row.not_before or 0.0) + row.ttl_s)
    return late if late > 0 else None


def _was_taken_over(tale: Tale, end: Event) -> bool:
    """Tell whether a cancelled job lost its lease: the reaper ends it then, under that reason."""
    return end.reason == "CANCELLED" and tale.row is not None and not tale.row.by_holder


def _came_to_its_end(runs: Sequence[Run], held: Held) -> bool:
    start = held.start
    return start is not None and any(r.attempt == start.attempt and r.returned for r in runs)
