"""When the annotation is written, and how often."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.kubernetes.pace import FIRST_WAIT_S, LAST_WAIT_S, Pace

INTERVAL_S = 30.0


def writes(pace: Pace, costs: list[int], begin: int = 0) -> list[tuple[int, int]]:
    """Let a second pass for each cost; return when what was written."""
    found = []
    for second, cost in enumerate(costs, begin):
        if (due := pace.due(second, cost)) is not None:
            pace.wrote(second, due)
            found.append((second, due))
    return found


def test_the_first_look_is_written_also_when_it_is_zero() -> None:
    assert writes(Pace(INTERVAL_S), [0] * 100) == [(0, 0)]


def test_a_rise_from_zero_is_written_at_once() -> None:
    assert writes(Pace(INTERVAL_S), [0, 0, 3]) == [(0, 0), (2, 3)]


def test_a_further_rise_waits_for_the_interval() -> None:
    assert writes(Pace(INTERVAL_S), [1] + [4] * 99) == [(0, 1), (30, 4)]


def test_a_fall_is_written_when_the_higher_cost_is_an_interval_ago() -> None:
    assert writes(Pace(INTERVAL_S), [0, 8] + [0] * 98) == [(0, 0), (1, 8), (32, 0)]


def test_a_pod_with_short_breaks_between_its_jobs_stays_busy_with_one_write() -> None:
    assert writes(Pace(INTERVAL_S), [1, 0, 0, 0, 0] * 200) == [(0, 1)]


def test_a_jumping_cost_is_written_at_its_height() -> None:
    draw = random.Random(7)
    costs = [8] + [draw.choice((1, 2, 4, 8)) for _ in range(3600)]
    assert len(writes(Pace(INTERVAL_S), costs)) <= 2


@given(st.lists(st.sampled_from((0, 1, 2, 1001, 2004)), min_size=1, max_size=400))
def test_no_course_of_costs_is_written_more_than_twice_an_interval(costs: list[int]) -> None:
    pace = Pace(INTERVAL_S)
    found = writes(pace, costs)
    for first, third in zip(found, found[2:], strict=False):
        assert third[0] - first[0] >= INTERVAL_S
    for (_, before), (_, after) in itertools.pairwise(found):
        assert before != after


@given(st.lists(st.sampled_from((0, 1, 2, 1001, 2004)), min_size=1, max_size=200))
def test_whatever_happened_the_annotation_ends_true(costs: list[int]) -> None:
    pace = Pace(INTERVAL_S)
    found = writes(pace, costs + [costs[-1]] * 65)
    assert found[-1][1] == costs[-1]


def test_failures_are_tried_again_less_and_less_whatever_the_cost() -> None:
    pace = Pace(INTERVAL_S)
    now, waits = 0.0, []
    for turn in range(12):
        pace.failed(now, at_least_s=0, chance=0)
        begun = now
        while pace.due(now, turn % 3) is None:
            now += 1
        waits.append(now - begun)
    assert waits[:4] == [FIRST_WAIT_S, 10, 20, 40]
    assert waits[-1] == LAST_WAIT_S


def test_pods_that_failed_together_come_back_apart() -> None:
    paces = [Pace(INTERVAL_S), Pace(INTERVAL_S)]
    for pace, chance in zip(paces, (0.0, 0.99), strict=True):
        pace.failed(0, at_least_s=100, chance=chance)
    assert [pace.due(101, 1) for pace in paces] == [1, None]
    assert paces[1].due(150, 1) == 1


@pytest.mark.parametrize(("asked_s", "granted_s"), [(60, 60), (1e8, LAST_WAIT_S), (0, 5)])
def test_the_api_server_may_ask_for_patience_within_limits(asked_s: float, granted_s: int) -> None:
    pace = Pace(INTERVAL_S)
    pace.failed(0, at_least_s=asked_s, chance=0)
    assert (pace.due(granted_s - 1, 1), pace.due(granted_s, 1)) == (None, 1)


def test_after_a_failure_the_same_cost_is_written_again() -> None:
    pace = Pace(INTERVAL_S)
    pace.wrote(0, 4)
    known = [pace.known]
    pace.failed(1, at_least_s=0, chance=0)
    assert [*known, pace.known] == [True, False]
    assert pace.due(10, 4) == 4


def test_a_success_makes_the_next_failure_a_first_one() -> None:
    pace = Pace(INTERVAL_S)
    for _ in range(5):
        pace.failed(0, at_least_s=0, chance=0)
    pace.wrote(0, 1)
    pace.failed(0, at_least_s=0, chance=0)
    assert pace.due(FIRST_WAIT_S, 1) == 1
