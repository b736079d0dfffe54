"""What must be true of each job: of its events, its row and its runs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tests.chaos.history import SAME_STATEMENT_S, SLACK_S, Event, Held, History, Run, Tale
from tests.chaos.rules_of_reasons import (
    REPORTED,
    charged,
    crashes_stop_at_their_limit,
    goes_a_legal_way,
    is_charged_what_it_cost,
    is_dead_when_its_retries_are_used_up,
    lives_its_time,
    moves_for_a_reason,
)

TERMINAL = frozenset({"DONE", "DEAD_LETTERED"})
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
        lasted = held.end.at - (held.start or held.claim).at  # a start gives it its whole time
        if lasted < history.rules.lease_s - SAME_STATEMENT_S:
            yield f"the lease of token {held.claim.token} expired after {lasted:.3f} s"
        left = history.promised.get(_token(held.claim), held.end.at) - held.end.at
        if left > 0:
            yield f"the lease of token {held.claim.token} expired with {left:.3f} s left"


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
    if row is None or row.status != "DONE":
        return
    by = next((run for run in tale.runs if run.nonce == row.result), None)
    if by is None:
        yield f"no attempt returned {row.result!r}"  # None: what it returned is lost
    elif not any(held.may_have_run(by) for held in tale.leases()[-1:]):
        yield f"the result of attempt {by.attempt} is recorded for attempt {row.attempt}"


def is_told_of_by_the_attempt_that_it_ends(tale: Tale, _: History) -> Iterator[str]:
    """I7: what is recorded of an end that a handler brought about, its own attempt said."""
    for held in tale.leases():
        if held.end is None or held.end.reason not in _BY_HANDLERS:
            continue
        told = [run for run in tale.runs if run.nonce in held.end.detail]
        if not told:
            yield f"no attempt told of {held.end.reason} under token {held.claim.token}"
        for run in told:
            if not held.may_have_run(run):
                yield f"attempt {run.attempt} told of {held.end.reason} of {held.end.attempt}"


def is_not_claimed_before_it_is_due(tale: Tale, _: History) -> Iterator[str]:
    """I9: who is told to wait waits, unless an operator retries it."""
    if tale.row is None:
        return
    due = tale.row.not_before
    for event in tale.stretches()[0]:  # who retries a job wants it now
        if due is not None and event.to_status == "ASSIGNED" and event.at < due:
            yield f"claimed {due - event.at:.3f} s before it was due"


def waits_its_backoff(tale: Tale, history: History) -> Iterator[str]:
    """I9: who was charged a retry waits its backoff, unless an operator asks."""
    for failed, retried in pairwise(tale.events):
        if failed.to_status != "FAILED" or retried.to_status != "PENDING" or not charged(failed):
            continue
        if retried.reason not in _AFTER_A_WAIT:
            yield f"PENDING by {retried.reason} after {failed.reason}"
        waited_s = retried.at - failed.at
        if retried.reason == "RETRY_DUE" and waited_s < history.rules.backoff_s:
            yield f"due again {waited_s:.3f} s after {failed.reason}"


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
    """I15: nothing of an attempt is alive when all is over, nor after its end was reported.

    Who lost its lease has some time to hear of it, in which its worker does not stand still.
    """
    for run in tale.runs:
        if run.nonce in history.alive:
            yield f"attempt {run.attempt} is alive"
    if len(tale.lives()) > 1:
        return  # attempts are counted anew: which run is which cannot be told
    leases = {held.start.attempt: held for held in tale.leases() if held.start}
    for run in tale.runs:
        held = leases.get(run.attempt)
        if held is None or held.end is None or held.end.reason not in _BOUNDED:
            continue
        late_s = run.last_seen_at - held.end.at
        if late_s > _may_live_s(tale, history, held, run):
            yield f"attempt {run.attempt} was alive {late_s:.3f} s after {held.end.reason}"


def runs_are_starts(tale: Tale, _: History) -> Iterator[str]:
    """I17: each run is an attempt on record, once; what a handler brought about has run.

    Attempts are counted anew in each life, and a run cannot be told to be of one: so of all lives
    together there are no more runs of a number than starts.
    """
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
    ("I5", moves_for_a_reason),
    ("I5", is_where_its_events_lead),
    ("I6", is_charged_what_it_cost),
    ("I6", is_dead_when_its_retries_are_used_up),
    ("I6", crashes_stop_at_their_limit),
    ("I7", is_ended_by_its_holder),
    ("I7", has_the_result_of_its_last_attempt),
    ("I7", is_told_of_by_the_attempt_that_it_ends),
    ("I8", lives_its_time),
    ("I9", is_not_claimed_before_it_is_due),
    ("I9", waits_its_backoff),
    ("I10", is_recorded_without_gaps),
    ("I15", is_over_when_it_was_told_so),
    ("I17", runs_are_starts),
)

_HEARS_S = 10.0
"""A worker hears that a lease is lost within a renewal or its term, then has it killed."""

_BOUNDED = REPORTED | {"LEASE_EXPIRED"}

_BY_HANDLERS = frozenset({"HANDLER_FAILED", "RETRY_LATER", "REFUSED"})
"""Ends that only a handler can have brought about."""

_AFTER_A_WAIT = frozenset({"RETRY_DUE", "OPERATOR_RETRY"})


def _token(event: Event) -> int:
    return event.token if event.token is not None else -1


def _may_live_s(tale: Tale, history: History, held: Held, run: Run) -> float:
    """Return for how long a run may go on after the end of its lease."""
    end = held.end
    assert end is not None
    if end.reason != "LEASE_EXPIRED" and not _was_taken_over(tale, end):
        return SLACK_S
    stops = (stop for stop in history.stops if stop.worker == held.claim.worker)
    stood = (min(s.until, run.last_seen_at) - max(s.since, end.at) for s in stops)
    return _HEARS_S + sum(each for each in stood if each > 0)


def _was_taken_over(tale: Tale, end: Event) -> bool:
    """Tell whether a cancelled job lost its lease: the reaper ends it then, under that reason."""
    return end.reason == "CANCELLED" and tale.row is not None and not tale.row.by_holder


def _came_to_its_end(runs: Sequence[Run], held: Held) -> bool:
    start = held.start
    return start is not None and any(r.attempt == start.attempt and r.returned for r in runs)
