"""Writes a run down: JSON for programs, Markdown and SVG for people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench import plots
from bench.form import FULL
from bench.results import Cell, Column, Point, Run, Table
from bench.stats import Spread
from bench.targets import Verdict, verdicts

_HEAD = """\
Made by `bench`; [how to read it](../benchmarks.md). Each figure is the median of the runs, with
the lowest and the highest in parentheses.
"""

_SMALLER = """
\\* In the smaller sizes and shorter times of this form; the full form has those of the target.
"""

NOTES = Path(__file__).parent / "notes"
"""One paragraph a workload, kept by people: what limits it, and what was tried."""

NOISY_PCT = 10.0
"""Of the machine used by others: above it the wall-clock figures of a cell mean little."""


def write(run: Run, folder: Path) -> None:
    """Write `NAME.json`, `NAME.md` and the plots, each as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    charts = {f"{run.name}-{name}.svg": svg for name, svg in _charts(run).items()}
    files = {
        f"{run.name}.json": json.dumps(asdict(run), indent=1) + "\n",
        f"{run.name}.md": markdown(run),
        **charts,
    }
    for name, text in files.items():
        partial = folder / f".{name}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(folder / name)


def markdown(run: Run) -> str:
    """Return the run as a page."""
    parts = [
        f"# Benchmark, {run.form} form{_part(run)}\n",
        _HEAD,
        _facts(run),
        _targets(run),
        *(_section(run, table) for table in run.tables),
        _settings(run.settings),
    ]
    return "\n".join(part for part in parts if part)


def _part(run: Run) -> str:
    return "" if run.name == run.form else f": {run.name}"


def _facts(run: Run) -> str:
    facts = {**run.machine, **run.versions, "from": run.started_at, "to": run.finished_at}
    return table_rows(("", ""), [(name, value) for name, value in facts.items() if value])


def _settings(settings: Mapping[str, str]) -> str:
    rows = [(f"`{name}`", f"`{value}`") for name, value in settings.items()]
    return "## PostgreSQL\n\nThe same for everybody:\n\n" + table_rows(("setting", "value"), rows)


def _targets(run: Run) -> str:
    found = verdicts(run.tables)
    rows = [(v.name, v.target, v.seen, _judged(v, run)) for v in found]
    if not rows:
        return ""
    small = any(v.sized for v in found) and run.form != FULL.name
    return (
        "## Targets\n\nRatios are between cells of this run, against the fastest peer in it.\n\n"
        + table_rows(("target", "limit", "measured", "holds"), rows)
        + (_SMALLER if small else "")
    )


def _judged(verdict: Verdict, run: Run) -> str:
    if verdict.holds is None:
        return ""
    mark = " *" if verdict.sized and run.form != FULL.name else ""
    return ("yes" if verdict.holds else "**no**") + mark


def _section(run: Run, table: Table) -> str:
    columns = [
        column for column in table.columns if any(c.spread(column.name) for c in table.cells)
    ]
    rows = [_row(cell, columns) for cell in table.cells]
    parts = [f"## {table.title}\n", f"{table.about} Took {table.seconds:.0f} s.\n"]
    if columns:
        parts.append(table_rows(("", *(c.title for c in columns), "runs", "remarks"), rows))
    charts = [f"![{table.title}]({run.name}-{name}.svg)\n" for name in _charts_of(table)]
    return "\n".join([*parts, *charts, *_note(table.name)])


def _note(workload: str) -> list[str]:
    path = NOTES / f"{workload}.md"
    text = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    return [f"**What limits it, and what was tried.** {text}\n"] if text else []


def _row(cell: Cell, columns: list[Column]) -> tuple[str, ...]:
    figures = (_figure(cell.spread(column.name), column.digits) for column in columns)
    return (cell.label, *figures, str(len(cell.samples)), _remarks(cell))


def _remarks(cell: Cell) -> str:
    foreign = cell.spread("foreign_pct")
    noisy = foreign is not None and foreign.high > NOISY_PCT
    remarks = (cell.note, cell.fault, "noisy: others used the machine" if noisy else "")
    return "; ".join(remark for remark in remarks if remark).replace("\n", " ").replace("|", "/")


def _figure(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return "-"
    middle, low, high = (
        f"{value:,.{digits}f}" for value in (spread.median, spread.low, spread.high)
    )
    return middle if low == high else f"{middle} ({low} to {high})"


def table_rows(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table of Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _charts(run: Run) -> dict[str, str]:
    return {name: svg for table in run.tables for name, svg in _charts_of(table).items()}


def _charts_of(table: Table) -> dict[str, str]:
    """Return the charts of a table by name: bars of its main figure, lines of its series."""
    found = {}
    column = next((c for c in table.columns if c.name == table.plot), None)
    if column is not None:
        spreads = {c.label: s for c in table.cells if (s := c.spread(column.name)) is not None}
        if spreads:
            found[table.name] = plots.bars(table.title, column.title, spreads)
    for name in sorted({key for c in table.cells for s in c.samples for key in s.series}):
        found[f"{table.name}-{_slug(name)}"] = plots.lines(table.title, name, _series(table, name))
    return found


def _series(table: Table, name: str) -> dict[str, list[Point]]:
    """Return the last run of each cell: means of series would hide what happened when."""
    return {
        c.label: list(c.samples[-1].series[name])
        for c in table.cells
        if c.samples and name in c.samples[-1].series
    }


def _slug(name: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in name.lower()).strip("-")
