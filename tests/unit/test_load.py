"""The mixture of the load: what is drawn, and what its variables allow."""

import random

import pytest

from examples.load.mixture import Load, draw

_MANY = 2_000


def test_the_load_is_read_from_its_variables_and_an_empty_one_counts_as_unset() -> None:
    load = Load.of({"LOAD_JOBS_PER_S": "7.5", "LOAD_SECONDS": "", "OTHER": "x"})
    assert load == Load(jobs_per_s=7.5)


@pytest.mark.parametrize(
    "env",
    [
        {"LOAD_JOBS_PER_S": "0"},
        {"LOAD_JOBS_PER_S": "many"},
        {"LOAD_SECONDS": "-1"},
        {"LOAD_FAILING_PERCENT": "101"},
    ],
)
def test_a_load_that_cannot_be_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Load.of(env)


def test_every_kind_of_job_is_drawn_and_the_failing_ones_in_their_share() -> None:
    dice = random.Random(1)
    kinds = [draw(Load(failing_percent=10), dice).type for _ in range(_MANY)]
    assert set(kinds) == {"load-mail", "load-report", "load-flaky", "load-refused"}
    failing = sum(kind in {"load-flaky", "load-refused"} for kind in kinds)
    assert 0.05 < failing / _MANY < 0.15


def test_without_failing_jobs_none_is_drawn() -> None:
    dice = random.Random(1)
    kinds = {draw(Load(failing_percent=0), dice).type for _ in range(_MANY)}
    assert kinds == {"load-mail", "load-report"}
