"""Decides whether a history is one that the product may have: the invariants, one rule each.

I1 to I17 are the names under which documents and findings know them; I12 (one job a fire time) has
nothing to look at, as there are no schedules. ``I11`` is left out where there is no Kafka.
"""

from dataclasses import dataclass

from tests.chaos.history import History
from tests.chaos.rules_of_a_job import OF_ONE_JOB
from tests.chaos.rules_of_the_whole import OF_ALL


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that may not be: which invariant, of which job, and what was seen."""

    invariant: str
    job: str
    seen: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.job}: {self.seen}"


def check(history: History) -> list[Violation]:
    """Return everything that is wrong with a history."""
    tales = list(history.by_job().values())
    found = [
        Violation(name, tale.job, seen)
        for name, rule in OF_ONE_JOB
        for tale in tales
        for seen in rule(tale, history)
    ]
    found += [Violation(name, *each) for name, rule in OF_ALL for each in rule(history)]
    return found
