"""What tests of the harness share: a run that was never made."""

import pytest

from bench.results import Cell, Column, Run, Sample, Table


def cell(system: str, variant: str, *rates: float, **others: float) -> Cell:
    samples = [Sample({"jobs_per_s": rate, **others}) for rate in rates]
    return Cell(system, variant, samples=samples)


@pytest.fixture
def run() -> Run:
    columns = (Column("jobs_per_s", "jobs/s"), Column("db_us", "database µs/job", 1))
    drain = Table(
        "drain",
        "Drain",
        "What it is.",
        columns,
        [
            cell("jobqueue", "1 process, batch 100", 3000, 2000, 2500, db_us=50.0),
            cell("jobqueue", "1 process, batch 2000", 4000),
            cell("peer", "1 process", 1600),
            Cell("other peer", "", fault="not measured: no such runtime"),
        ],
        plot="jobs_per_s",
    )
    return Run(
        "short", "short", "2026-01-01", {"cores": "2"}, {"jobqueue": "1"}, {"fsync": "on"}, [drain]
    )
