"""What was measured: samples in cells, cells in tables, tables in a run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.stats import Spread

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one cell: values by name, and time series of (seconds, value)."""

    values: Mapping[str, float]
    series: Mapping[str, Sequence[Point]] = field(default_factory=dict)


@dataclass(slots=True)
class Cell:
    """One line of a table: what was measured under which circumstances, as often as it was run.

    ``fault`` says why there is nothing, or why there are fewer samples than runs.
    """

    system: str
    variant: str
    note: str = ""
    samples: list[Sample] = field(default_factory=list)
    fault: str = ""

    @property
    def label(self) -> str:
        """A name that is unique in its table."""
        return f"{self.system}, {self.variant}" if self.variant else self.system

    def spread(self, name: str) -> Spread | None:
        """Sum up one value over the runs; None when no run has it."""
        values = [sample.values[name] for sample in self.samples if name in sample.values]
        known = [value for value in values if not math.isnan(value)]
        return Spread.of(known) if known else None


@dataclass(frozen=True, slots=True)
class Column:
    """A value that a table shows; ``digits`` after the point."""

    name: str
    title: str
    digits: int = 0


@dataclass(slots=True)
class Table:
    """The cells of one workload, and what they mean."""

    name: str
    title: str
    about: str
    columns: Sequence[Column]
    cells: list[Cell] = field(default_factory=list)
    plot: str = ""  # the value in the bar chart; none for time series
    seconds: float = 0.0  # that the workload took, preparations included


@dataclass(slots=True)
class Run:
    """One run of the harness: everything that is needed to read and to repeat it.

    ``name`` is that of its page and its files.
    """

    name: str
    form: str
    started_at: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    settings: Mapping[str, str]
    tables: list[Table] = field(default_factory=list)
    finished_at: str = ""
