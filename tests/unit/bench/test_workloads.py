from pathlib import Path
from typing import Any, cast

import pytest

from bench.contestants import PEERS
from bench.form import FORMS, FULL, Form
from bench.ours import Ours
from bench.programs.mix import spec
from bench.results import Cell, Sample, Table
from bench.stage import Stage, submit_order
from bench.systems import System
from bench.targets import TARGETS, Verdict, verdicts
from bench.workloads.all import WORKLOADS


def stage(form: Form) -> Stage:
    """Return a stage on which everybody stands and nothing runs."""
    systems: list[System] = [Ours(), *(make() for make in PEERS)]
    return Stage(cast("Any", None), Path(), form, {system.name: system for system in systems})


def tables(form: Form, value: float) -> list[Table]:
    """Return the tables of a run in which every figure is the same."""
    made = []
    for w in WORKLOADS:
        sample = Sample({column.name: value for column in w.columns})
        cells = [Cell(p.system, p.variant, p.note, [sample]) for p in w.plans(stage(form))]
        made.append(Table(w.name, w.title, w.about, w.columns, cells, w.plot))
    return made


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_cell_of_a_table_has_a_name_of_its_own(form: Form) -> None:
    for table in tables(form, 1.0):
        labels = [cell.label for cell in table.cells]
        assert len(set(labels)) == len(labels), table.name


def test_every_target_is_about_figures_that_a_full_run_has() -> None:
    assert len(verdicts(tables(FULL, 1.0))) == len(TARGETS)


def test_the_chart_of_a_table_shows_one_of_its_columns() -> None:
    for workload in WORKLOADS:
        assert workload.plot in {"", *(column.name for column in workload.columns)}


def test_a_target_holds_at_its_limit() -> None:
    (target,) = [t for t in TARGETS if t.name.startswith("N-4 database CPU a job")]
    assert target.judge(tables(FULL, 70.0)) == Verdict(
        target.name, "≤ 70 µs (goal 55)", "70.00 µs", holds=True
    )
    above = target.judge(tables(FULL, 70.5))
    assert above is not None
    assert not above.holds


def test_a_figure_that_is_only_stated_neither_holds_nor_fails() -> None:
    (stated,) = [t for t in TARGETS if t.name == "database CPU that events add to a job"]
    assert stated.judge(tables(FULL, 70.0)) == Verdict(stated.name, "stated", "0.00 µs", holds=None)


def test_throughput_is_judged_until_the_cores_are_full() -> None:
    rates = {"1 direct": (100, 30), "2 direct": (190, 60), "4 direct": (200, 95)}
    run = tables(FULL, 1.0)
    for cell in next(table for table in run if table.name == "scale-out").cells:
        if cell.variant in rates:
            rate, busy = rates[cell.variant]
            cell.samples = [Sample({"jobs_per_s": rate, "busy_pct": busy})]
    (target,) = [t for t in TARGETS if t.name.startswith("N-6 direct workers")]
    verdict = target.judge(run)
    assert verdict is not None
    assert verdict.seen == "0.95 ×"


def test_peers_are_compared_at_equal_process_counts() -> None:
    (target,) = [t for t in TARGETS if t.name.endswith("fastest peer, 2 processes")]
    run = tables(FULL, 1.0)
    for cell in run[0].cells:
        if cell.variant.startswith("1 process"):
            cell.samples = [Sample({"jobs_per_s": 1e6})]
    seen = target.judge(run)
    assert seen is not None
    assert seen.seen == "1.00 ×"


def test_the_mixture_is_what_its_table_says() -> None:
    jobs = [spec(number) for number in range(1000)]
    assert sum(job.delay_s is not None for job in jobs) == 100
    assert sum(job.type == "flaky" for job in jobs) == 50
    assert {job.priority for job in jobs} == set(range(10))


def test_every_system_gets_the_same_order() -> None:
    assert submit_order(10, 5.0) == {"jobs": 10, "seconds": 5.0, "batch": 1000, "callers": 4}


def test_systems_have_names_of_their_own() -> None:
    names = [make().name for make in PEERS]
    assert len({*names, Ours().name}) == len(names) + 1
