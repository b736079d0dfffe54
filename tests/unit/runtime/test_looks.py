"""Looks are spaced by what they cost, once they cost it twice in a row."""

import pytest

from jobqueue.runtime.clock import ManualClock
from jobqueue.runtime.looks import LONGEST_S, SHARE, Looks

USUAL_S, DEAR_S = 0.1, 0.15


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def looks(clock: ManualClock) -> Looks:
    return Looks(clock)


def test_the_first_look_is_due_at_once(looks: Looks) -> None:
    assert looks.wait_s == 0


def test_looks_that_take_what_is_usual_are_always_due(looks: Looks) -> None:
    for _ in range(3):
        looks.note(USUAL_S, usual_s=USUAL_S)
        assert looks.wait_s == 0


def test_one_dear_look_may_be_chance(looks: Looks) -> None:
    looks.note(60.0)
    assert looks.wait_s == 0
    looks.note(0.0)
    assert looks.wait_s == 0
    looks.note(60.0)
    assert looks.wait_s == 0


def test_of_two_dear_looks_the_cheaper_one_counts_with_what_is_beyond_the_usual(
    looks: Looks,
) -> None:
    looks.note(60.0, usual_s=USUAL_S)
    looks.note(DEAR_S, usual_s=USUAL_S)
    assert looks.wait_s == pytest.approx((DEAR_S - USUAL_S) * SHARE)


def test_the_wait_passes_with_time_and_never_becomes_negative(
    looks: Looks, clock: ManualClock
) -> None:
    for _ in range(2):
        looks.note(DEAR_S)
    clock.advance(DEAR_S * SHARE / 3)
    assert looks.wait_s == pytest.approx(DEAR_S * SHARE * 2 / 3)
    clock.advance(DEAR_S * SHARE)
    assert looks.wait_s == 0


def test_however_dear_looks_are_there_is_a_longest_wait(clock: ManualClock) -> None:
    for looks, longest_s in ((Looks(clock), LONGEST_S), (Looks(clock, longest_s=1.0), 1.0)):
        for _ in range(2):
            looks.note(3600.0)
        assert looks.wait_s == longest_s


def test_a_hurried_look_is_due_now_and_its_cost_still_known(looks: Looks) -> None:
    for _ in range(2):
        looks.note(DEAR_S)
    looks.hurry()
    assert looks.wait_s == 0
    looks.note(DEAR_S)
    assert looks.wait_s == pytest.approx(DEAR_S * SHARE)


def test_what_is_forgotten_is_no_first_one_of_two(looks: Looks) -> None:
    looks.note(DEAR_S)
    looks.forget()
    looks.note(DEAR_S)
    assert looks.wait_s == 0
