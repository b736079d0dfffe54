"""What is compared: a way to store jobs, a way to run them, and a way to see both in tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.processes import Launch

QUEUE = "default"
NOOP = "noop"


@dataclass(frozen=True, slots=True)
class Probes:
    """Questions to the system's own tables. Counting looks at all rows, the others at a few.

    ``taken``: has any job been taken? ``empty``: is none left? ``left``: how many are not done?
    ``done``: about how many were done, by a sequence or PostgreSQL's statistics; cheap, up to a
    second old, and unknown where neither tells.
    """

    taken: str
    empty: str
    left: str
    done: str = ""


class System(Protocol):
    """One contestant, with the fastest settings its own documentation gives."""

    @property
    def name(self) -> str:
        """What the tables call it."""
        ...

    @property
    def tuning(self) -> str:
        """The settings it runs with."""
        ...

    @property
    def keeps(self) -> str:
        """What is in the database of a job that is done."""
        ...

    @property
    def volatile(self) -> tuple[str, ...]:
        """Its tables that a crash may empty; none of them holds jobs."""
        ...

    @property
    def slow(self) -> bool:
        """Tell whether once is enough in the short form: nobody waits for the slowest."""
        ...

    @property
    def probes(self) -> Probes:
        """How to see its jobs."""
        ...

    async def install(self, cache: Path) -> str:
        """Make its environment below ``cache`` unless it is there; return its version.

        Raises NotInstallable.
        """
        ...

    async def prepare(self, dsn: str) -> None:
        """Make its schema. Raises BenchError."""
        ...

    def submitter(self, dsn: str) -> Launch:
        """Return a talking program that stores jobs by the fastest public way."""
        ...

    def workers(self, dsn: str, processes: int) -> Sequence[Launch]:
        """Return the programs that together run jobs in so many processes."""
        ...
