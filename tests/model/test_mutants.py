"""That the machine finds faults: each planted one, within so many examples."""

import os

import pytest

from tests.model.compare import Disagreement
from tests.model.database import Database
from tests.model.mutants import MUTANTS, Mutant
from tests.model.runs import search

_ALL = os.environ.get("JQ_MODEL_MUTANTS") == "1"
# Some are found only after minutes: those are `make model-mutants` alone.
_SEARCHED = [mutant for mutant in MUTANTS if _ALL or mutant.quick]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", _SEARCHED, ids=lambda m: m.what.replace(" ", "-"))
def test_the_machine_finds_that(database: str, mutant: Mutant) -> None:
    opened = Database(database)
    try:
        with mutant.planted(opened), pytest.raises(Disagreement):
            search(opened)
    finally:
        opened.close()
