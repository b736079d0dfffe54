"""The store against a model of what it promises, in drawn orders of all that can happen."""

import pytest

from tests.model.database import Database
from tests.model.runs import explore


@pytest.mark.slow
@pytest.mark.timeout(600)  # what is found is made short, which takes its time
def test_the_store_does_what_the_model_says(database: str) -> None:
    opened = Database(database)
    try:
        explore(opened)
    finally:
        opened.close()
