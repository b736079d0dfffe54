import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.backoff import MAX_DELAY_S, RetryPolicy, bounded_delay, retry_delay

ANY = st.floats()
COUNTS = st.integers(-(10**400), 10**400) | st.integers(-3, 2000)


@given(ANY, ANY, ANY, COUNTS, ANY)
def test_no_input_makes_a_delay_negative_or_unbounded(
    base: float, longest: float, multiplier: float, retries: int, jitter: float
) -> None:
    delay = retry_delay(RetryPolicy(base, longest, multiplier), retries, jitter)
    assert math.isfinite(delay)
    assert 0.0 <= delay <= 1.2 * bounded_delay(longest) * (1 + 1e-12)


@pytest.mark.parametrize("base", [5e-324, 1e-300, 1e-7, 0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("multiplier", [1.0, 1 + 2e-16, 2.0, 1e308, 0.5, math.nan, math.inf])
@pytest.mark.parametrize("retries", [0, 1, 2000, 10**400])
def test_the_edges_of_floats_are_ordinary_inputs(
    base: float, multiplier: float, retries: int
) -> None:
    assert 0.0 <= retry_delay(RetryPolicy(base, 300, multiplier), retries, 0.0) <= 300


@pytest.mark.parametrize(("retries", "delay"), list(enumerate([5, 10, 20, 40, 80, 160, 300, 300])))
def test_the_default_policy_doubles_from_five_seconds_to_five_minutes(
    retries: int, delay: float
) -> None:
    assert retry_delay(RetryPolicy(), retries, 0.0) == delay


@given(st.integers(0, 40), st.floats(0, 1, exclude_max=True))
def test_jitter_adds_at_most_a_fifth(retries: int, jitter: float) -> None:
    plain = retry_delay(RetryPolicy(), retries, 0.0)
    assert retry_delay(RetryPolicy(), retries, jitter) == pytest.approx(plain * (1 + 0.2 * jitter))


@given(st.floats(0.001, 1e4), st.floats(1, 100), st.integers(0, 100))
def test_a_later_retry_never_waits_less(base: float, multiplier: float, retries: int) -> None:
    policy = RetryPolicy(base, MAX_DELAY_S, multiplier)
    assert retry_delay(policy, retries, 0.0) <= retry_delay(policy, retries + 1, 0.0)


def test_the_first_backoff_is_the_base_even_with_an_endless_multiplier() -> None:
    assert retry_delay(RetryPolicy(5, 300, math.inf), 0, 0.0) == 5
    assert retry_delay(RetryPolicy(5, 300, math.inf), 1, 0.0) == 300


def test_a_zero_base_means_at_once() -> None:
    assert retry_delay(RetryPolicy(0.0), 7, 0.5) == 0.0


def test_a_maximum_below_the_base_wins() -> None:
    assert retry_delay(RetryPolicy(5, 2), 0, 0.0) == 2
