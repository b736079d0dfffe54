"""R-3.9, line by line."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.lease import Counters, Lease
from jobqueue.domain.outcome import (
    UNHANDLED_LIMIT,
    Cancelled,
    Charge,
    Completed,
    Expired,
    Failed,
    Fate,
    LeaseExpired,
    Outcome,
    Postponed,
    Refused,
    Released,
    Settlement,
    Unhandled,
    decide,
)
from jobqueue.domain.state import Reason

LEASE = Lease(7, 70)
SOME = Counters(retries=1, crashes=1, handbacks=4, unhandled=2)


def end(
    outcome: Outcome, counters: Counters = SOME, *, max_retries: int = 3, crash_limit: int = 3
) -> Settlement:
    charge = Charge(LEASE, max_retries, counters, RetryPolicy(5, 300, 2))
    return decide(charge, outcome, crash_limit=crash_limit, jitter=0.0)


def test_a_handler_failure_costs_one_retry() -> None:
    s = end(Failed("boom"))
    assert (s.fate, s.reason, s.dead_reason) == (Fate.WAIT, Reason.HANDLER_FAILED, None)
    assert (s.counters.retries, s.delay_s, s.detail) == (2, 10.0, "boom")


def test_a_timeout_costs_one_retry() -> None:
    s = end(Failed("too long", Reason.TIMED_OUT))
    assert (s.fate, s.reason, s.counters.retries) == (Fate.WAIT, Reason.TIMED_OUT, 2)


def test_an_assignment_timeout_costs_one_retry_and_keeps_the_crash_count() -> None:
    s = end(Failed("never started", Reason.ASSIGNMENT_TIMEOUT))
    assert (s.fate, s.reason) == (Fate.WAIT, Reason.ASSIGNMENT_TIMEOUT)
    assert s.counters == Counters(retries=2, crashes=1, handbacks=4, unhandled=2)


@pytest.mark.parametrize(
    "outcome",
    [Failed("x"), Failed("x", Reason.TIMED_OUT), Failed("x", Reason.ASSIGNMENT_TIMEOUT)],
)
def test_a_failure_without_retries_left_is_dead(outcome: Failed) -> None:
    s = end(outcome, max_retries=1)
    assert (s.fate, s.reason, s.dead_reason) == (
        Fate.DEAD,
        outcome.reason,
        Reason.RETRIES_EXHAUSTED,
    )
    assert s.counters.retries == 1


def test_with_no_retries_allowed_the_first_failure_is_the_last() -> None:
    assert end(Failed("x"), Counters(), max_retries=0).fate is Fate.DEAD


def test_a_lease_lost_while_running_costs_one_retry_and_one_crash() -> None:
    s = end(LeaseExpired(running=True))
    assert (s.fate, s.reason, s.delay_s) == (Fate.WAIT, Reason.LEASE_EXPIRED, 10.0)
    assert s.counters == Counters(retries=2, crashes=2, handbacks=0, unhandled=2)


def test_crashes_in_a_row_up_to_the_limit_are_dead_by_their_own_reason() -> None:
    s = end(LeaseExpired(running=True), crash_limit=2)
    assert (s.fate, s.reason, s.dead_reason) == (
        Fate.DEAD,
        Reason.LEASE_EXPIRED,
        Reason.CRASH_LIMIT,
    )
    assert s.counters.crashes == 2


def test_the_crash_limit_is_named_even_when_retries_are_exhausted_too() -> None:
    s = end(LeaseExpired(running=True), max_retries=1, crash_limit=2)
    assert s.dead_reason is Reason.CRASH_LIMIT


def test_a_crash_below_the_limit_without_retries_left_is_dead_for_the_retries() -> None:
    s = end(LeaseExpired(running=True), max_retries=1)
    assert s.dead_reason is Reason.RETRIES_EXHAUSTED


def test_a_lease_lost_while_assigned_costs_nothing() -> None:
    s = end(LeaseExpired(running=False))
    assert (s.fate, s.reason, s.delay_s) == (Fate.READY, Reason.LEASE_EXPIRED, 0.0)
    assert s.counters == Counters(retries=1, crashes=1, handbacks=5, unhandled=2)


def test_the_tenth_lease_lost_in_a_row_while_assigned_counts_as_a_crash() -> None:
    s = end(LeaseExpired(running=False), Counters(retries=1, crashes=1, handbacks=9))
    assert (s.fate, s.counters) == (Fate.READY, Counters(retries=1, crashes=2, handbacks=0))


def test_that_crash_too_can_reach_the_limit() -> None:
    s = end(LeaseExpired(running=False), Counters(crashes=2, handbacks=9))
    assert (s.fate, s.dead_reason) == (Fate.DEAD, Reason.CRASH_LIMIT)


def test_a_release_costs_nothing() -> None:
    s = end(Released("shutdown"))
    assert (s.fate, s.reason, s.counters) == (Fate.READY, Reason.RELEASED, SOME)


@pytest.mark.parametrize(("times", "delay"), list(enumerate([5, 10, 20, 40, 60, 60])))
def test_no_handler_costs_nothing_and_waits_five_seconds_doubling_to_sixty(
    times: int, delay: float
) -> None:
    s = end(Unhandled(), Counters(1, crashes=1, handbacks=3, unhandled=times))
    assert (s.fate, s.reason, s.delay_s) == (Fate.WAIT, Reason.NO_HANDLER, delay)
    assert s.counters == Counters(1, crashes=1, handbacks=3, unhandled=times + 1)


def test_no_handler_is_never_dead_however_often_and_its_count_stops() -> None:
    s = end(Unhandled(), Counters(retries=9, unhandled=UNHANDLED_LIMIT), max_retries=0)
    assert s.fate is Fate.WAIT
    assert s.counters.unhandled == UNHANDLED_LIMIT


def test_a_postponement_costs_nothing_and_waits_as_asked() -> None:
    s = end(Postponed(12.5, "later"), max_retries=0)
    assert (s.fate, s.reason, s.delay_s, s.detail) == (Fate.WAIT, Reason.RETRY_LATER, 12.5, "later")
    assert s.counters.retries == 1


@pytest.mark.parametrize("odd", [-1.0, math.inf, -math.inf, math.nan, 1e300])
def test_a_postponement_stays_within_zero_and_ten_years(odd: float) -> None:
    assert 0 <= end(Postponed(odd)).delay_s <= 10 * 365 * 86_400


def test_a_refusal_is_dead_at_once() -> None:
    s = end(Refused("bad input"))
    assert (s.fate, s.dead_reason, s.detail) == (Fate.DEAD, Reason.REFUSED, "bad input")


def test_a_completion_keeps_the_result_even_when_it_is_empty() -> None:
    s = end(Completed(b"", truncated=True))
    assert (s.fate, s.reason, s.result, s.result_truncated) == (
        Fate.DONE,
        Reason.COMPLETED,
        b"",
        True,
    )


def test_a_cancellation_is_dead_as_cancelled() -> None:
    s = end(Cancelled())
    assert (s.fate, s.reason, s.dead_reason) == (Fate.DEAD, Reason.CANCELLED, Reason.CANCELLED)


def test_an_ended_ttl_is_dead_as_expired() -> None:
    s = end(Expired())
    assert (s.fate, s.dead_reason) == (Fate.DEAD, Reason.TTL_EXPIRED)


@pytest.mark.parametrize(
    "reported", [Completed(), Failed("x"), Refused("x"), Postponed(1), Cancelled()]
)
def test_any_reported_outcome_resets_the_crash_count(reported: Outcome) -> None:
    counters = end(reported).counters
    assert (counters.crashes, counters.handbacks, counters.unhandled) == (0, 0, 0)


OUTCOMES = st.one_of(
    st.builds(Completed, st.none() | st.binary(), st.booleans()),
    st.builds(Failed, st.text(), st.sampled_from([Reason.HANDLER_FAILED, Reason.TIMED_OUT])),
    st.builds(Refused, st.text()),
    st.builds(Postponed, st.floats()),
    st.builds(Released),
    st.builds(Unhandled),
    st.builds(Cancelled),
    st.builds(LeaseExpired, st.booleans()),
    st.builds(Expired),
)
SMALL = st.integers(0, 12)


@given(OUTCOMES, st.builds(Counters, SMALL, SMALL, SMALL, SMALL), SMALL, st.integers(1, 12))
def test_every_end_is_settled_within_what_the_job_was_allowed(
    outcome: Outcome, counters: Counters, max_retries: int, crash_limit: int
) -> None:
    s = end(outcome, counters, max_retries=max_retries, crash_limit=crash_limit)
    assert s.lease == LEASE
    assert (s.dead_reason is not None) == (s.fate is Fate.DEAD)
    assert math.isfinite(s.delay_s)
    assert s.delay_s == 0 or s.fate is Fate.WAIT
    assert counters.retries <= s.counters.retries <= max(max_retries, counters.retries)
    assert s.result is None or s.fate is Fate.DONE


@pytest.mark.parametrize(
    ("outcome", "retries", "moves", "charged"),
    [
        (Completed(), 0, ["DONE:COMPLETED"], False),
        (Failed("boom"), 0, ["FAILED:HANDLER_FAILED"], True),
        (Failed("boom"), 3, ["FAILED:HANDLER_FAILED", "DEAD_LETTERED:RETRIES_EXHAUSTED"], False),
        (LeaseExpired(running=True), 0, ["FAILED:LEASE_EXPIRED"], True),
        (LeaseExpired(running=False), 0, ["FAILED:LEASE_EXPIRED", "PENDING:LEASE_EXPIRED"], False),
        (Postponed(5.0), 0, ["FAILED:RETRY_LATER"], False),
        (Unhandled(), 0, ["FAILED:NO_HANDLER"], False),
        (Released(), 0, ["FAILED:RELEASED", "PENDING:RELEASED"], False),
    ],
)
def test_a_settlement_knows_its_transitions_and_whether_a_retry_was_charged(
    outcome: Outcome, retries: int, moves: list[str], *, charged: bool
) -> None:
    settled = end(outcome, Counters(retries=retries))
    written = settled.end(cancelled=False)
    assert [f"{status}:{reason}" for status, reason in written.moves()] == moves
    assert written.charges_retry == charged


def test_a_settlement_that_meets_a_cancel_request_charges_nothing() -> None:
    written = end(Failed("boom")).end(cancelled=True)
    assert [str(status) for status, _ in written.moves()] == ["FAILED", "DEAD_LETTERED"]
    assert {reason for _, reason in written.moves()} == {Reason.CANCELLED}
    assert not written.charges_retry
