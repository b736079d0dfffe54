"""The runner: whatever a cell, a peer or a sweep does, the run goes on and says so."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from bench import runner
from bench.errors import BenchError
from bench.form import FORMS, SHORT, Form
from bench.ours import Ours
from bench.results import Column, Run, Sample
from bench.runner import forecast_s, run_all
from bench.stage import Stage
from bench.workloads.all import WORKLOADS
from bench.workloads.base import Plan, Workload
from tests.unit.bench.test_workloads import stage as full_stage

MOST_S = 13 * 60


class Fake(Workload):
    """Two cells, of which the first fails as it is told to."""

    name = "fake"
    title = "Fake"
    about = "Nothing."
    columns = (Column("jobs_per_s", "jobs/s"),)
    compares = True

    def __init__(self, fault: Exception | None) -> None:
        self._fault = fault

    def plans(self, stage: Stage) -> Sequence[Plan]:
        return [
            Plan("peer", "", partial(self._run, self._fault), lasts_s=2.0),
            Plan("jobqueue", "", partial(self._run, None), lasts_s=3.0, runs=1),
        ]

    async def _run(self, fault: Exception | None) -> Sample:
        if fault is not None:
            raise fault
        return Sample({"jobs_per_s": 1.0})


class NoPlan(Fake):
    """Cannot even say what it would do."""

    def plans(self, stage: Stage) -> Sequence[Plan]:
        raise BenchError("no plan")


class Unswept(Stage):
    """Databases stay where they are."""

    async def forget(self) -> None:
        raise BenchError("somebody is connected")


def stage(folder: Path, kind: type[Stage] = Stage) -> Stage:
    return kind(cast("Any", None), folder, SHORT, {"jobqueue": Ours()}, {"other": "no runtime"})


async def measured(stage: Stage, *workloads: Workload) -> tuple[Run, list[int]]:
    """Return a run, and how many tables were there each time it was saved."""
    run, saved = Run("short", "short", "", {}, {}, {}), list[int]()
    await run_all(stage, workloads, run, lambda _: None, lambda run: saved.append(len(run.tables)))
    return run, saved


async def test_a_cell_that_fails_is_a_row_with_the_reason(tmp_path: Path) -> None:
    run, _ = await measured(stage(tmp_path), Fake(BenchError("it does not start")))
    peer, ours, absent = run.tables[0].cells
    assert peer.fault == "BenchError: it does not start"
    assert len(ours.samples) == 1
    assert absent.fault == "not measured: no runtime"
    assert "it does not start" in (tmp_path / "faults.log").read_text()


async def test_a_workload_that_fails_is_a_row_and_the_next_is_measured(tmp_path: Path) -> None:
    run, saved = await measured(stage(tmp_path), NoPlan(None), Fake(None))
    assert [cell.fault for cell in run.tables[0].cells] == ["BenchError: no plan"]
    assert run.tables[1].cells[0].samples
    assert saved == [1, 2]


async def test_what_cannot_be_swept_away_is_said(tmp_path: Path) -> None:
    run, _ = await measured(stage(tmp_path, Unswept), Fake(None))
    assert run.tables[0].cells[-1].fault == "BenchError: somebody is connected"


async def test_a_cell_that_is_given_up_says_so_and_after_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(Fake):
        async def _run(self, fault: Exception | None) -> Sample:
            await asyncio.Event().wait()
            return Sample({})

    monkeypatch.setattr(runner, "_PATIENCE", 0)
    monkeypatch.setattr(runner, "_SPARE_S", 0.01)
    run, _ = await measured(stage(tmp_path), Endless(None))
    assert run.tables[0].cells[0].fault == "TookTooLong: given up after 0 s"


async def test_a_fault_without_words_is_told_by_its_kind(tmp_path: Path) -> None:
    run, _ = await measured(stage(tmp_path), Fake(TimeoutError()))
    assert run.tables[0].cells[0].fault == "TimeoutError"


def test_a_forecast_counts_each_cell_as_often_as_it_is_run(tmp_path: Path) -> None:
    again = Stage(cast("Any", None), tmp_path, SHORT.repeated(3), {})
    assert forecast_s(again, Fake(None)) == pytest.approx(3 * 2.0 + 3.0)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_workload_says_how_long_it_takes(form: Form) -> None:
    assert all(forecast_s(full_stage(form), workload) > 1 for workload in WORKLOADS)


def test_the_short_form_takes_minutes() -> None:
    daily = [workload for workload in WORKLOADS if workload.short]
    assert sum(forecast_s(full_stage(SHORT), workload) for workload in daily) < MOST_S
