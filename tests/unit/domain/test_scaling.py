"""The number that an autoscaler is told, and when there must be a worker (R-10.2)."""

import pytest

from jobqueue.domain.scaling import Load, Mode, Trigger, claimable, is_active, measure

DRAIN = Trigger(None, 60.0, mode=Mode.DRAIN)


def value(mode: Mode, load: Load) -> float:
    return measure(Trigger(None, 60.0, mode=mode), load)


@pytest.mark.parametrize(
    ("max_running", "expected"), [(None, 10), (7, 3), (4, 0), (2, 0), (100, 10)]
)
def test_claimable_is_what_neither_a_pause_nor_the_limit_of_a_queue_keeps_back(
    max_running: int | None, expected: int
) -> None:
    assert claimable(10, 4, paused=False, max_running=max_running) == expected
    assert claimable(10, 4, paused=True, max_running=max_running) == 0


@pytest.mark.parametrize("mode", Mode)
def test_nothing_to_do_is_0_and_not_active(mode: Mode) -> None:
    trigger = Trigger(None, 60.0, mode=mode)
    for pace in (None, 0.0, 5.0):
        idle = Load(finished_per_s=pace)
        assert measure(trigger, idle) == 0.0
        assert not is_active(trigger, idle)


@pytest.mark.parametrize("mode", Mode)
def test_there_must_be_a_worker_while_one_holds_a_job_whatever_else_is_true(mode: Mode) -> None:
    assert is_active(Trigger(None, 60.0, activation=1e9, mode=mode), Load(held=1))


@pytest.mark.parametrize("mode", Mode)
def test_activation_is_a_number_of_claimable_jobs_that_must_be_passed(mode: Mode) -> None:
    trigger = Trigger(None, 60.0, activation=3.0, mode=mode)
    assert not is_active(trigger, Load(claimable=3, oldest_age_s=900.0))
    assert is_active(trigger, Load(claimable=4))


def test_depth_counts_what_waits_and_what_runs() -> None:
    assert value(Mode.DEPTH, Load(claimable=5, held=2)) == 7.0


def test_age_is_that_of_the_oldest_job_that_waits() -> None:
    assert value(Mode.AGE, Load(claimable=1, held=9, oldest_age_s=12.5)) == 12.5


def test_drain_is_the_work_through_the_pace() -> None:
    assert value(Mode.DRAIN, Load(claimable=90, held=10, finished_per_s=0.5)) == 200.0


@pytest.mark.parametrize("pace", [None, 0.0])
def test_an_unknown_pace_asks_for_twice_as_much_and_no_more(pace: float | None) -> None:
    assert measure(DRAIN, Load(claimable=1_000_000, finished_per_s=pace)) == 120.0


@pytest.mark.parametrize("pace", [None, 0.0, 0.001])
def test_long_jobs_with_nothing_behind_them_ask_for_no_more_replicas(pace: float | None) -> None:
    assert measure(DRAIN, Load(held=5, finished_per_s=pace)) == 60.0
