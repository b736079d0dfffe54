"""The mutants of ``make mutants`` fit the code as it is now: nobody has to run them to know."""

from pathlib import Path

import pytest

from tools.mutants.__main__ import broken
from tools.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_what_is_there(mutant: Mutant) -> None:
    whole = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert broken(whole, mutant) != whole
    assert all((ROOT / path).exists() for path in mutant.tests.split())


def test_there_are_enough_of_different_kinds() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    assert len({mutant.file for mutant in MUTANTS}) >= 8
