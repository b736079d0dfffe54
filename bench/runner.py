"""Runs the plans of each workload, interleaved, and keeps what came of them."""

import asyncio
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.errors import TookTooLong
from bench.results import Cell, Run, Sample, Table
from bench.stage import Stage
from bench.workloads.base import Plan, Workload

Say = Callable[[str], None]
Save = Callable[[Run], None]

_PATIENCE, _SPARE_S = 5, 120.0
"""One run of a cell that takes so many times as long as it should, and this more, is given up."""


async def run_all(
    stage: Stage, workloads: Sequence[Workload], run: Run, say: Say, save: Save
) -> None:
    """Run every workload; what is there is saved after each, faults and all."""
    faults = stage.folder / "faults.log"
    for workload in workloads:
        begun = time.monotonic()
        say(workload.title)
        table = Table(
            workload.name, workload.title, workload.about, workload.columns, [], workload.plot
        )
        run.tables.append(table)
        whole = Cell("bench", workload.name)
        with _noted(whole, faults):
            say(f"  about {forecast_s(stage, workload):.0f} s")
            await _run(stage, workload, table.cells, say)
        with _noted(whole, faults):
            await stage.forget()
        if whole.fault:
            table.cells.append(whole)
        table.seconds = time.monotonic() - begun
        save(run)
        say(f"  took {table.seconds:.0f} s")


def forecast_s(stage: Stage, workload: Workload) -> float:
    """Return about how long a workload takes, without environments to be installed."""
    runs = _runs(stage, workload)
    measured = sum(plan.lasts_s * min(plan.runs or runs, runs) for plan in workload.plans(stage))
    return workload.prepares_s(stage.form) + measured


def _runs(stage: Stage, workload: Workload) -> int:
    return stage.form.runs if workload.main else stage.form.side_runs


async def _run(stage: Stage, workload: Workload, cells: list[Cell], say: Say) -> None:
    """Interleave the runs, so that a change of the machine's mood meets everybody."""
    plans = workload.plans(stage)
    cells += [Cell(plan.system, plan.variant, plan.note) for plan in plans]
    runs = _runs(stage, workload)
    prepares_s = workload.prepares_s(stage.form)
    for number in range(runs):
        for plan, cell in zip(plans, cells, strict=True):
            if number < (plan.runs or runs) and not cell.fault:
                with _noted(cell, stage.folder / "faults.log"):
                    within_s = _PATIENCE * (prepares_s + plan.lasts_s) + _SPARE_S
                    cell.samples.append(await _within(within_s, plan))
                say(f"  {number + 1}/{runs} {cell.label}: {_glance(workload, cell)}")
    for system, reason in stage.absent.items() if workload.compares else ():
        cells.append(Cell(system, "", fault=f"not measured: {reason}"))


async def _within(seconds: float, plan: Plan) -> Sample:
    """Run once. Raises TookTooLong when it is given up."""
    patience = asyncio.timeout(seconds)
    try:
        async with patience:
            return await plan.run()
    except TimeoutError as error:
        if not patience.expired():
            raise
        raise TookTooLong(f"given up after {seconds:.0f} s") from error


@contextmanager
def _noted(cell: Cell, log: Path) -> Iterator[None]:
    """Keep what goes wrong in the cell: the report shows it, and the others are measured."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever a system or its driver may raise
        with log.open("a", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)
        cell.fault = f"{type(error).__name__}: {error}".removesuffix(": ")


def _glance(workload: Workload, cell: Cell) -> str:
    if cell.fault:
        return cell.fault
    values = cell.samples[-1].values
    columns = [column for column in workload.columns if column.name in values]
    return ", ".join(f"{values[c.name]:,.{c.digits}f} {c.title}" for c in columns)
