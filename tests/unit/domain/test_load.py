"""What a pod is worth."""

from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.load import IDLE, Load, deletion_cost, together

HOUR_S = 3600.0
LOADS = st.builds(Load, st.integers(0, 10**9), st.floats(-1e9, 1e9))


def cost(jobs: int, age_s: float) -> int:
    return deletion_cost(Load(jobs, 1000.0), 1000.0 + age_s)


def test_an_idle_pod_costs_nothing_whatever_it_ran_before() -> None:
    assert cost(0, 0) == cost(0, HOUR_S) == deletion_cost(IDLE, 5.0) == 0


def test_of_young_jobs_a_pod_costs_their_number_rounded_up_to_a_power_of_two() -> None:
    assert [cost(n, 59.9) for n in (1, 2, 3, 4, 5, 8, 9, 500, 10_000)] == [
        1, 2, 4, 4, 8, 8, 16, 512, 512,
    ]  # fmt: skip


def test_each_doubling_of_the_oldest_jobs_minutes_costs_a_thousand_more() -> None:
    minutes = (0.9, 1, 1.9, 2, 3.9, 4, 7.9, 8, 60, 24 * 60)
    assert [cost(1, 60 * m) // 1000 for m in minutes] == [0, 1, 1, 2, 2, 3, 3, 4, 6, 11]


def test_a_job_of_an_hour_outlives_any_number_of_jobs_of_a_minute() -> None:
    assert cost(1, HOUR_S) > cost(10_000, 119)


def test_a_clock_that_seems_to_run_backwards_makes_a_job_young() -> None:
    assert cost(1, -5) == 1


@given(LOADS, st.floats(-1e300, 1e300))
def test_no_load_costs_what_kubernetes_cannot_read(load: Load, now: float) -> None:
    assert 0 <= deletion_cost(load, now) < 2**31
    assert (deletion_cost(load, now) == 0) == (load.jobs == 0)


@given(st.integers(1, 100), st.integers(1, 100), st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_jobs_or_older_ones_never_make_a_pod_cheaper(
    jobs: int, more: int, age_s: float, longer_s: float
) -> None:
    assert cost(jobs, age_s) <= cost(jobs + more, age_s)
    assert cost(jobs, age_s) <= cost(jobs, age_s + longer_s)


def test_processes_together_have_all_their_jobs_and_the_age_of_the_oldest() -> None:
    assert together([Load(2, 50.0), IDLE, Load(3, 40.0)]) == Load(5, 40.0)
    assert together([IDLE, IDLE]) == together([]) == IDLE
