"""Looks figures up in the tables of a run: medians of cells, and what compares them.

Each function returns a look-up that gives None when the run does not have the figure.
"""

from collections.abc import Callable, Sequence

from bench.results import Cell, Table

OURS = "jobqueue"
Look = Callable[[Sequence[Table]], float | None]


def median(table: str, label: str, value: str) -> Look:
    """Look up the median of a value of one cell."""

    def look(tables: Sequence[Table]) -> float | None:
        cell = next((c for c in _cells(tables, table) if c.label == label), None)
        return _median(cell, value)

    return look


def ratio(above: Look, below: Look) -> Look:
    """Divide two figures of one run."""

    def look(tables: Sequence[Table]) -> float | None:
        one, other = above(tables), below(tables)
        return one / other if one is not None and other else None

    return look


def added(with_it: Look, without: Look) -> Look:
    """Subtract two figures of one run."""

    def look(tables: Sequence[Table]) -> float | None:
        one, other = with_it(tables), without(tables)
        return one - other if one is not None and other is not None else None

    return look


def highest(table: str, value: str, variant: str = "", *, ours: bool) -> Look:
    """Look up the highest median among our cells or the peers', whose variant begins so."""

    def look(tables: Sequence[Table]) -> float | None:
        cells = (c for c in _cells(tables, table) if c.variant.startswith(variant))
        found = (_median(c, value) for c in cells if (c.system == OURS) is ours)
        return max((rate for rate in found if rate is not None), default=None)

    return look


def against_peers(table: str, value: str, variant: str) -> Look:
    """Divide our best cell by the best one of the peers, among those whose variant begins so."""
    return ratio(
        highest(table, value, variant, ours=True), highest(table, value, variant, ours=False)
    )


def share_of_linear(
    table: str, one: str, counts: Sequence[tuple[int, str]], full_pct: float
) -> Look:
    """Look up the least rate against so many times that of ``one``.

    ``counts`` are numbers of workers and the labels of their cells, from few to many; it ends
    before the first in which the cores were busier than ``full_pct``.
    """

    def look(tables: Sequence[Table]) -> float | None:
        base = median(table, one, "jobs_per_s")(tables)
        shares = []
        for count, label in counts:
            rate = median(table, label, "jobs_per_s")(tables)
            busy = median(table, label, "busy_pct")(tables)
            if not base or rate is None or busy is None or busy > full_pct:
                break
            shares.append(rate / (count * base))
        return min(shares, default=None)

    return look


def _cells(tables: Sequence[Table], table: str) -> list[Cell]:
    return [cell for found in tables if found.name == table for cell in found.cells]


def _median(cell: Cell | None, value: str) -> float | None:
    spread = cell.spread(value) if cell is not None else None
    return None if spread is None else spread.median
