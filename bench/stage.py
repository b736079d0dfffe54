"""Where cells are measured: the cluster, folders, sizes, and the contestants that are there."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from bench.cluster import Cluster, connected
from bench.errors import BenchError
from bench.form import Form
from bench.measure import Meter
from bench.processes import Launch, Program
from bench.systems import System

Fill = Callable[[asyncpg.Connection], Awaitable[None]]

BATCH_JOBS = 1000
_UNLOGGED = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u'"
SUBMIT_CALLERS = 4


@dataclass(slots=True)
class Scene:
    """One cell under way: a database of its own, a meter, and programs that end with it."""

    dsn: str
    connection: asyncpg.Connection
    meter: Meter
    folder: Path
    stack: AsyncExitStack
    numbers: "itertools.count[int]"
    programs: list[Program] = field(default_factory=list)

    async def count(self, question: str) -> int:
        """Ask the database how many."""
        return int(await self.connection.fetchval(question))

    async def start(self, launch: Launch, *, group: str = "", talks: bool = False) -> Program:
        """Start a program; ``group`` says whose processor time it is."""
        name = Path(launch.argv[0]).name
        log = self.folder / f"{next(self.numbers):04}-{name}.log"
        program = await self.stack.enter_async_context(Program(launch, log, talks=talks))
        self.programs.append(program)
        if group:
            self.meter.watch(group, [program.pid])
        return program

    async def end(self, program: Program) -> None:
        """End a program before the cell does."""
        await program.end()
        self.programs.remove(program)


@dataclass(slots=True)
class Stage:
    """What all cells of a run share."""

    cluster: Cluster
    folder: Path
    form: Form
    systems: dict[str, System]
    absent: dict[str, str] = field(default_factory=dict)
    _templates: dict[str, str] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @asynccontextmanager
    async def scene(self, system: System, template: str = "") -> AsyncIterator[Scene]:
        """Give one cell a database: a copy of ``template``, or the system's empty schema."""
        dsn = await self.cluster.create(template or await self.empty(system))
        try:
            # Programs end before the database they use goes.
            async with connected(dsn) as connection, AsyncExitStack() as stack:
                meter = Meter(connection, self.cluster.pid)
                yield Scene(dsn, connection, meter, self.folder, stack, self._numbers)
        finally:
            await self.cluster.drop(dsn)

    async def empty(self, system: System) -> str:
        """Return a database with the system's schema and no jobs; made once a run."""
        return await self.loaded(system, 0)

    async def loaded(self, system: System, jobs: int) -> str:
        """Return a database with so many waiting no-op jobs, or as many as the box allows."""
        key = f"{system.name}, {jobs} jobs"
        if key not in self._templates:
            self._templates[key] = await self._load(system, jobs)
        return self._templates[key]

    async def filled(self, system: System, key: str, fill: Fill) -> str:
        """Return a database that ``fill`` has filled; made once a workload for each ``key``."""
        if key not in self._templates:
            dsn = await self.cluster.create(await self.empty(system))
            async with connected(dsn) as connection:
                await fill(connection)
            await self.cluster.rest(dsn)
            self._templates[key] = dsn
        return self._templates[key]

    async def forget(self) -> None:
        """Drop the databases kept for later cells."""
        while self._templates:
            _, dsn = self._templates.popitem()
            await self.cluster.drop(dsn)

    async def _load(self, system: System, jobs: int) -> str:
        dsn = await self.cluster.create(await self.empty(system) if jobs else "template1")
        if not jobs:
            await system.prepare(dsn)
            await _check_durable(system, dsn)
            return dsn
        await self._store(system, dsn, jobs)
        await self.cluster.rest(dsn)
        return dsn

    async def _store(self, system: System, dsn: str, jobs: int) -> None:
        log = self.folder / f"{next(self._numbers):04}-load-{system.name}.log"
        async with Program(system.submitter(dsn), log, talks=True) as program:
            await program.ready()
            await program.ask(**submit_order(jobs, self.form.load_s))
            await program.heard(self.form.load_s * 3 + 60)


async def _check_durable(system: System, dsn: str) -> None:
    """Raise BenchError when jobs would be in tables that a crash may empty."""
    async with connected(dsn) as connection:
        found = [row[0] for row in await connection.fetch(_UNLOGGED)]
    if volatile := set(found) - set(system.volatile):
        raise BenchError(f"{system.name} keeps in UNLOGGED tables: {', '.join(sorted(volatile))}")


def submit_order(jobs: int, seconds: float, batch: int = BATCH_JOBS) -> dict[str, float]:
    """Return the order to store jobs in batches, the same for every system."""
    return {"jobs": jobs, "seconds": seconds, "batch": batch, "callers": SUBMIT_CALLERS}
