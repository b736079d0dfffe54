import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measure import Reading, _children, _tree_cpu, between

_SPIN = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"


def test_what_lies_between_two_readings_is_told_per_job() -> None:
    cores = os.cpu_count() or 1
    first = Reading(10.0, {"db": 1.0, "load": 0.0}, 100.0, 1000)
    last = Reading(12.0, {"db": 1.5, "load": 0.1, "worker": 0.3}, 101.0, 5000)
    values = between(first, last).values(1000)
    assert values["jobs_per_s"] == 500
    assert values["db_us"] == 500
    assert values["worker_us"] == pytest.approx(300)
    assert values["wal_b"] == 4
    assert values["foreign_pct"] == pytest.approx(100 * 0.1 / (2 * cores))


def test_no_job_done_is_no_division_by_zero() -> None:
    first, last = (Reading(at, {"db": at}, 0.0, 0) for at in (0.0, 1.0))
    assert between(first, last).values(0)["jobs_per_s"] == 0


def test_time_of_processes_that_have_ended_is_counted_where_they_were_awaited() -> None:
    before = _tree_cpu(os.getpid(), _children(), set())
    subprocess.run([sys.executable, "-c", _SPIN], check=True)
    # The kernel counts in hundredths of a second, and may lose one or two.
    assert _tree_cpu(os.getpid(), _children(), set()) - before > 0.15


def test_a_tree_that_is_counted_apart_is_not_counted_twice() -> None:
    with subprocess.Popen([sys.executable, "-c", f"{_SPIN}\ninput()"], stdin=-1) as child:
        children = _children()
        assert child.pid in children[os.getpid()]
        # In this order: this process itself goes on to use time.
        without = _tree_cpu(os.getpid(), children, {child.pid})
        with_child = _tree_cpu(os.getpid(), children, set())
        alone = _tree_cpu(child.pid, children, set())
        assert child.stdin is not None
        child.stdin.close()
    assert with_child >= without
    assert alone >= 0.0


def test_a_process_that_is_gone_costs_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], cwd=tmp_path) as child:
        pass
    assert _tree_cpu(child.pid, {}, set()) == 0.0
