"""What every workload says about itself, and the loop that watches jobs go."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from bench.errors import TookTooLong
from bench.form import Form
from bench.processes import until
from bench.results import Column, Sample
from bench.stage import Scene, Stage
from bench.systems import Probes

LOOK_S = 0.02
SCENE_S = 2.0
"""About how long a database, its programs and their end take."""

FILL_PER_S = 40_000
"""About how many jobs a second of filling brings."""

_FIRST_JOB_S = 60.0

RATE = Column("jobs_per_s", "jobs/s")
COSTS = (
    Column("db_us", "database µs/job", 1),
    Column("server_us", "server µs/job", 1),
    Column("worker_us", "workers µs/job", 1),
    Column("load_us", "clients µs/job", 1),
    Column("wal_b", "WAL B/job"),
    Column("image_b", "page images B/job"),
)
FOREIGN = Column("foreign_pct", "foreign CPU %", 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """One cell to be: its name in the table, and how one run of it is measured."""

    system: str
    variant: str
    run: Callable[[], Awaitable[Sample]]
    lasts_s: float  # about, from the first program started to the last one ended
    note: str = ""
    runs: int | None = None  # how often; as the form says unless given


class Workload(ABC):
    """One table of the report. ``plot``: the column of its bar chart."""

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    columns: ClassVar[Sequence[Column]]
    plot: ClassVar[str] = ""
    compares: ClassVar[bool] = False  # peers take part
    main: ClassVar[bool] = False  # repeated more often than the others
    short: ClassVar[bool] = True  # part of the short form; else it must be named there

    @abstractmethod
    def plans(self, stage: Stage) -> Sequence[Plan]:
        """Return the cells, in the order of the table."""

    def prepares_s(self, _form: Form) -> float:
        """Return about how long it takes to fill databases before the first run."""
        return 0.0


async def watch_drain(scene: Scene, probes: Probes, box_s: float) -> Sample:
    """Measure from the first job taken to the last one done, or to the end of the box.

    All of it by the tables, so start-up is in no figure, nor what was done before the first job
    was seen to be taken. Raises BenchError when nothing begins.
    """
    taken = partial(says, scene, probes.taken)
    await until(taken, within_s=_FIRST_JOB_S, what="the first job", pause_s=LOOK_S)
    first = await scene.meter.read()
    left = await scene.count(probes.left)
    with contextlib.suppress(TookTooLong):
        await until(partial(says, scene, probes.empty), within_s=box_s, what="", pause_s=LOOK_S)
    window = await scene.meter.since(first)
    return Sample(window.values(left - await scene.count(probes.left)))


async def says(scene: Scene, question: str) -> bool:
    """Ask the database, after making sure that every program is still there."""
    for program in scene.programs:
        program.check()
    return bool(await scene.connection.fetchval(question))
