import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench import plots
from bench.report import NOTES, markdown, write
from bench.results import Cell, Run, Sample, Table
from bench.stats import Spread
from bench.workloads.all import WORKLOADS
from bench.workloads.claim import BIG

SVG = "{http://www.w3.org/2000/svg}"


def test_the_page_shows_medians_with_their_extremes(run: Run) -> None:
    page = markdown(run)
    assert "| jobqueue, 1 process, batch 100 | 2,500 (2,000 to 3,000) | 50.0 | 3 |" in page
    assert "| peer, 1 process | 1,600 | - | 1 |" in page


def test_the_page_says_who_could_not_take_part(run: Run) -> None:
    assert "not measured: no such runtime" in markdown(run)


def test_the_page_judges_the_targets_it_has_figures_for(run: Run) -> None:
    page = markdown(run)
    assert (
        "| N-4 drain against the fastest peer, 1 process | ≥ 1.3 × (goal 2) | 2.50 × | yes |"
        in page
    )
    assert "2 processes | ≥" not in page


def test_what_a_smaller_form_says_of_a_target_with_a_size_is_marked(run: Run) -> None:
    claim = Table("claim", "Claim", "About.", ())
    claim.cells.append(Cell("jobqueue", BIG, samples=[Sample({"p95": 9.0})]))
    run.tables = [claim]
    assert "| ≤ 10 ms | 9.00 ms | yes * |" in markdown(run)
    assert "smaller sizes" in markdown(run)
    run.form = "full"
    assert "| ≤ 10 ms | 9.00 ms | yes |" in markdown(run)
    assert "smaller sizes" not in markdown(run)


def test_the_page_takes_over_what_people_say_of_a_workload(run: Run) -> None:
    said = (NOTES / "drain.md").read_text(encoding="utf-8").strip()
    assert f"**What limits it, and what was tried.** {said}" in markdown(run)


def test_there_is_a_paragraph_for_every_workload() -> None:
    notes = {path.stem: path.read_text(encoding="utf-8") for path in NOTES.glob("*.md")}
    assert notes.keys() == {workload.name for workload in WORKLOADS}
    assert all(len(text.strip().splitlines()) == 1 for text in notes.values())


def test_links_in_paragraphs_lead_from_the_page_to_decisions() -> None:
    folder = NOTES.parents[1] / "docs" / "benchmarks"
    for path in NOTES.glob("*.md"):
        for link in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            assert (folder / link).resolve().exists(), f"{path.name}: {link}"


def test_a_part_of_a_form_has_a_page_of_its_own(run: Run, tmp_path: Path) -> None:
    run.name = "part"
    write(run, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"part.json", "part.md", "part-drain.svg"}
    assert "# Benchmark, short form: part" in markdown(run)


def test_a_cell_that_shared_the_machine_is_marked(run: Run) -> None:
    assert "noisy" not in markdown(run)
    run.tables[0].cells[2].samples.append(Sample({"jobs_per_s": 1.0, "foreign_pct": 40.0}))
    assert "noisy" in markdown(run)


def test_a_run_is_written_as_data_page_and_charts(run: Run, tmp_path: Path) -> None:
    write(run, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"short.json", "short.md", "short-drain.svg"}
    kept = json.loads((tmp_path / "short.json").read_text())
    assert kept["tables"][0]["cells"][0]["samples"][0]["values"]["jobs_per_s"] == 3000
    assert "(short-drain.svg)" in (tmp_path / "short.md").read_text()


def test_series_become_a_chart_of_the_last_run(run: Run, tmp_path: Path) -> None:
    table = Table("held", "Held", "About.", ())
    cell = run.tables[0].cells[0]
    cell.samples.append(Sample({}, {"jobs/s": [(0.0, 1.0), (1.0, 2.0)]}))
    table.cells.append(cell)
    run.tables = [table]
    write(run, tmp_path)
    chart = ET.fromstring((tmp_path / "short-held-jobs-s.svg").read_text())
    assert len(chart.findall(f"{SVG}polyline")) == 1


def test_bars_are_as_long_as_their_medians() -> None:
    values = {"a <b>": Spread(10, 5, 20), "c": Spread(20, 20, 20)}
    chart = ET.fromstring(plots.bars("T & U", "jobs/s", values))
    first, second = (float(r.get("width", 0)) for r in chart.findall(f"{SVG}rect")[1:])
    assert second == pytest.approx(2 * first)
    assert "a <b>" in [text.text for text in chart.findall(f"{SVG}text")]


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 1), (0.7, 1), (1, 1), (1.1, 2), (23, 25), (999, 1000), (4100, 5000)]
)
def test_axes_end_at_a_round_number(value: float, expected: float) -> None:
    assert plots.nice_ceiling(value) == pytest.approx(expected)
