"""How long the machine runs, and from which seed.

In ``make test`` the run is always the same one. ``make model`` sets JQ_MODEL_EXAMPLES and
JQ_MODEL_STEPS, and gives Hypothesis a seed, which it prints.
"""

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.database import Database
from tests.model.machine import QueueMachine

EXAMPLES = int(os.environ.get("JQ_MODEL_EXAMPLES", "60"))
STEPS = int(os.environ.get("JQ_MODEL_STEPS", "40"))
SEARCH = 300
"""So many examples are enough for any planted fault, and a tenth of them for most."""

_DRAWN = "JQ_MODEL_EXAMPLES" in os.environ


def explore(database: Database) -> None:
    """Run the machine; a disagreement is made as short as it can be."""
    _run(database, EXAMPLES, (Phase.generate, Phase.shrink))


def search(database: Database) -> None:
    """Run the machine until it finds something, and do not make it short."""
    _run(database, SEARCH, (Phase.generate,))


def _run(database: Database, examples: int, phases: tuple[Phase, ...]) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        phases=phases,
        derandomize=not _DRAWN,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )

    class Bound(QueueMachine):
        def __init__(self) -> None:
            super().__init__(database)

    run_state_machine_as_test(Bound, settings=chosen)
