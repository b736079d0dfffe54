import math

import pytest

from bench.results import Cell, Sample
from bench.stats import Spread, percentile, percentiles


@pytest.mark.parametrize(("percent", "expected"), [(50, 2), (75, 3), (76, 4), (99, 4), (0, 1)])
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentile([4, 1, 3, 2], percent) == expected


def test_no_values_have_no_percentile() -> None:
    assert math.isnan(percentile([], 50))


def test_percentiles_are_scaled() -> None:
    assert percentiles([0.1, 0.2], scale=1000) == {"p50": 100, "p95": 200, "p99": 200, "max": 200}


def test_a_spread_is_the_median_between_the_extremes() -> None:
    assert Spread.of([3, 1, 2]) == Spread(2, 1, 3)


def test_a_cell_sums_up_the_runs_that_have_the_value() -> None:
    samples = [Sample({"a": 1.0}), Sample({"b": 5.0}), Sample({"a": math.nan}), Sample({"a": 2.0})]
    cell = Cell("s", "v", samples=samples)
    assert cell.spread("a") == Spread(1.5, 1, 2)
    assert cell.spread("c") is None


def test_labels_of_cells_name_system_and_variant() -> None:
    assert [Cell("s", "").label, Cell("s", "v").label] == ["s", "s, v"]
