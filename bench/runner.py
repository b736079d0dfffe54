"""Runs the plans of each workload, interleaved, and keeps what came of them."""

import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.results import Cell, Run, Table
from bench.stage import Stage
from bench.workloads.base import Plan, Workload

Say = Callable[[str], None]
Save = Callable[[Run], None]


async def run_all(
    stage: Stage, workloads: Sequence[Workload], run: Run, say: Say, save: Save
) -> None:
    """Run every workload; what is there is saved after each."""
    for workload in workloads:
        begun = time.monotonic()
        say(f"{workload.title}")
        table = await _run(stage, workload, say)
        for system, reason in stage.absent.items():
            if workload.compares:
                table.cells.append(Cell(system, "", fault=f"not measured: {reason}"))
        run.tables.append(table)
        await stage.forget()
        save(run)
        say(f"  took {time.monotonic() - begun:.0f} s")


async def _run(stage: Stage, workload: Workload, say: Say) -> Table:
    """Interleave the runs, so that a change of the machine's mood meets everybody."""
    plans = workload.plans(stage)
    cells = [Cell(plan.system, plan.variant, plan.note) for plan in plans]
    runs = stage.form.runs if workload.main else stage.form.side_runs
    for number in range(runs):
        for plan, cell in zip(plans, cells, strict=True):
            if number < (plan.runs or runs) and not cell.fault:
                await _sample(plan, cell, stage.folder / "faults.log")
                say(f"  {number + 1}/{runs} {cell.label}: {_glance(workload, cell)}")
    return Table(
        workload.name, workload.title, workload.about, workload.columns, cells, workload.plot
    )


async def _sample(plan: Plan, cell: Cell, log: Path) -> None:
    try:
        cell.samples.append(await plan.run())
    except Exception as error:  # noqa: BLE001 - the report shows it; the others are measured
        with log.open("a", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)
        cell.fault = f"{type(error).__name__}: {error}"


def _glance(workload: Workload, cell: Cell) -> str:
    if cell.fault:
        return cell.fault
    values = cell.samples[-1].values
    columns = [column for column in workload.columns if column.name in values]
    return ", ".join(f"{values[c.name]:,.{c.digits}f} {c.title}" for c in columns)
