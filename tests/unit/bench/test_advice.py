"""The tables of docs/tuning.md are made from a run."""

from pathlib import Path
from typing import Any

import pytest

from bench.advice import blocks, renewed
from bench.form import SHORT
from bench.workloads.tuning import Tuning
from tests.unit.bench.test_workloads import stage

PAGE = Path(__file__).parents[3] / "docs" / "tuning.md"


@pytest.fixture
def run() -> dict[str, Any]:
    values = {column.name: 1234.0 for column in Tuning.columns}
    cells = [
        {"variant": plan.variant, "samples": [{"values": values}]}
        for plan in Tuning().plans(stage(SHORT))
    ]
    return {
        "machine": {"cores": "2", "cpu": "some cpu"},
        "versions": {"jobqueue": "jobqueue 1 (commit abc)"},
        "settings": {"server_version": "18.1"},
        "finished_at": "2026-01-02T03:04:05+00:00",
        "tables": [{"name": "tuning", "cells": cells}],
    }


def test_the_page_for_users_has_every_block_and_keeps_its_words(run: dict[str, Any]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    made = renewed(page, blocks(run))
    assert "| 1,000 | 1,234 | 1,234 | 1,234 | 1,234 |" in made
    assert "Measured on 2026-01-02 with jobqueue 1 (commit abc) on 2 cores" in made
    assert renewed(made, dict.fromkeys(blocks(run), "")) == renewed(
        page, dict.fromkeys(blocks(run), "")
    ), "only blocks were touched"


def test_a_page_without_a_block_is_refused(run: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no block batches, concurrency, origin, pools, prefetch"):
        renewed("# A page\n", blocks(run))
