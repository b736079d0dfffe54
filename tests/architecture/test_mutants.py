"""The mutants of ``make mutants`` fit the code as it is now: nobody has to run them to know."""

from pathlib import Path

import pytest

from tools.mutants.__main__ import broken
from tools.mutants.catalogue import MUTANTS
from tools.mutants.mutant import Mutant
from tools.mutants.table import HEAD, rows_of, with_rows

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "mutants.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_what_is_there(mutant: Mutant) -> None:
    whole = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert broken(whole, mutant) != whole
    assert all((ROOT / path).exists() for path in mutant.tests.split())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_table_names_one_of_its_tests_for_each_mutant(mutant: Mutant) -> None:
    noticed_by = rows_of(TABLE)[mutant.name]
    assert noticed_by.startswith(tuple(mutant.tests.split()))


def test_the_table_has_no_mutant_that_is_not_there() -> None:
    assert list(rows_of(TABLE)) == [mutant.name for mutant in MUTANTS]


def test_there_are_enough_of_different_kinds() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 50
    assert len({mutant.file for mutant in MUTANTS}) >= 20


def test_a_run_of_some_leaves_the_rows_of_the_others() -> None:
    text = f"before\n\n{HEAD}\n|---|---|\n| b | `old` |\n| gone | `x` |\n| c | `kept` |\n\nbehind\n"
    made = with_rows(text, rows_of(text) | {"b": "new", "a": "found"}, ["a", "b", "c"])
    assert rows_of(made) == {"a": "found", "b": "new", "c": "kept"}
    assert made.startswith("before\n\n")
    assert made.endswith("\n\nbehind\n")
