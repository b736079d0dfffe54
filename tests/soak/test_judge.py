"""The judge of a soak is on trial: leaks that are planted in noise, and noise without one."""

import random
from collections.abc import Callable

import pytest

from tests.soak.judge import LEAST_LOOKS, Bound, Look, TooShort, judge

LOOKS, MINUTES = 120, 10.0
OF = ("server-0", "RSS")
FLAT = Bound("MiB", 0.05, 2.0)
PRICE = Bound("B", 0.25, 50.0, per_job=True)
Course = Callable[[float, random.Random], float]
"""From how much of the run has passed to a value."""


def verdict(course: Course, bound: Bound = FLAT, seed: int = 1) -> bool:
    """Tell whether what takes this course is judged to grow."""
    rng = random.Random(seed)
    looks = [
        Look(60 * MINUTES * i / LOOKS, 10 * i, {OF: course(i / LOOKS, rng)}) for i in range(LOOKS)
    ]
    (judged,) = judge(looks, {"RSS": bound})
    return judged.grows


def noise(rng: random.Random, width: float = 3.0) -> float:
    return rng.gauss(0, width)


LEAKS: dict[str, Course] = {
    "a steady leak": lambda t, rng: 80 + 20 * t + noise(rng),
    "a leak that begins late": lambda t, rng: 80 + max(t - 0.6, 0) * 60 + noise(rng),
    "steps": lambda t, rng: 80 + 4 * int(t * 6) + noise(rng),
    "a leak with a saw's teeth": lambda t, rng: 80 + 20 * t + 10 * (t * 37 % 1),
    "one that comes after a high beginning": lambda t, rng: (
        200 if t < 0.15 else 80 + 15 * t + noise(rng)
    ),
    "one in the middle of wild looks": lambda t, rng: (
        rng.choice([0, 300]) if rng.random() < 0.2 else 80 + 20 * t
    ),
}
STEADY: dict[str, Course] = {
    "noise": lambda t, rng: 80 + noise(rng),
    "a warm-up": lambda t, rng: 80 - 40 * max(0.2 - t, 0) * 5 + noise(rng),
    "a saw's teeth": lambda t, rng: 80 + 10 * (t * 37 % 1),
    "wild looks in every fifth": lambda t, rng: 400 if rng.random() < 0.3 else 80 + noise(rng),
    "what shrinks": lambda t, rng: 80 - 30 * t + noise(rng),
    "a plateau after a step in the warm-up": lambda t, rng: 60 if t < 0.1 else 90 + noise(rng),
}


@pytest.mark.parametrize("course", LEAKS.values(), ids=LEAKS)
def test_a_leak_is_found_whatever_the_noise(course: Course) -> None:
    assert all(verdict(course, seed=seed) for seed in range(50))


@pytest.mark.parametrize("course", STEADY.values(), ids=STEADY)
def test_what_is_only_noisy_is_flat(course: Course) -> None:
    assert not any(verdict(course, seed=seed) for seed in range(50))


def test_one_more_than_the_slack_grows_where_there_is_no_noise() -> None:
    count = Bound("", 0.0, 2.0)
    assert not verdict(lambda t, _: 12 if t < 0.5 else 14, count)
    assert verdict(lambda t, _: 12 if t < 0.5 else 15, count)


def test_what_grows_with_every_job_is_flat_as_long_as_a_job_costs_the_same() -> None:
    assert not verdict(lambda t, rng: 1e6 * t + noise(rng, 500), PRICE)
    assert not verdict(lambda t, _: 8192 * int(1e6 * t / 8192), PRICE), "tables grow by pages"
    assert verdict(lambda t, rng: 1e6 * t * t + noise(rng, 500), PRICE)


def test_a_leap_between_two_looks_is_no_price_of_a_job() -> None:
    assert not verdict(lambda t, _: 1e6 * t + (4e6 if t > 0.3 else 0), PRICE)


def test_who_comes_only_late_has_grown_from_nothing() -> None:
    looks = [
        Look(float(i), i, {("jq-worker", "connections"): 3.0} if i > 60 else {}) for i in range(100)
    ]
    (judged,) = judge(looks, {"connections": Bound("", 0.0, 1.0)})
    assert (judged.early, judged.late, judged.grows) == (0.0, 3.0, True)


def test_a_run_that_is_too_short_is_not_judged() -> None:
    looks = [Look(float(i), i, {OF: 1.0}) for i in range(5 * LEAST_LOOKS - 1)]
    for few in ([], looks[:1], looks):
        with pytest.raises(TooShort):
            judge(few, {"RSS": FLAT})


def test_a_gap_of_looks_in_one_fifth_is_not_judged() -> None:
    looks = [Look(float(i), i, {OF: 1.0}) for i in range(100) if not 82 < i < 99]
    with pytest.raises(TooShort):
        judge(looks, {"RSS": FLAT})


def test_a_price_without_jobs_is_not_judged() -> None:
    looks = [Look(float(i), 0, {OF: 1.0}) for i in range(100)]
    with pytest.raises(TooShort):
        judge(looks, {"RSS": PRICE})
