"""One run: a system, a load, accidents, quiet, and the verdict."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jobqueue.store.faults import DRIVER_ERRORS
from tests.chaos.accidents import Accidents, actions_on
from tests.chaos.checker import Violation, check
from tests.chaos.history import History, Rules
from tests.chaos.journal import Journal
from tests.chaos.load import Load, count_live
from tests.chaos.plan import GROUPS, KINDS, LEAST, SEAMS, plan, strikes_servers
from tests.chaos.reading import read_history, read_kafka
from tests.chaos.scene import scene_of
from tests.chaos.system import LEASE_S, NARROW_LIMIT, QUEUES, TOPIC, System, running
from tests.support.kafka import Listener
from tests.support.waiting import eventually

_LANES_AT_SERVERS, _LANES = 2, 3
_ROUND_S = 420.0
"""What a round may take. It takes half of that, unless the machine is busy."""

_QUIET_S, _KAFKA_S = 120.0, 60.0


@dataclass
class Outcome:
    """What came of a run."""

    seconds: float
    history: History
    violations: list[Violation]
    journal: Journal
    load: Load
    quiet: bool = True
    """Whether all jobs ended in time once nothing was done to the system any more (I16)."""
    ends: Counter[str] = field(default_factory=Counter)
    """How often programs ended, by kind of program and exit code."""
    errors: Counter[str] = field(default_factory=Counter)
    """What programs logged as errors."""
    rounds: float = 1.0

    @property
    def short(self) -> dict[str, int]:
        """What a whole round must bring and this one did not, by kind."""
        landed = {kind: self.journal.count(*names) for kind, names in KINDS.items()}
        return {kind: n for kind, n in landed.items() if n < LEAST[kind] * self.rounds}

    @property
    def absent(self) -> list[str]:
        """What did not happen once in a whole round, by name: classes, seams, a long pause."""
        if self.rounds < 1:
            return []
        classes = [group for group, kinds in GROUPS.items() if not self.journal.count(*kinds)]
        seams = [seam for seam in SEAMS if not self.journal.landed[seam]]
        pauses = [] if self.journal.long_pauses else ["a pause longer than a lease"]
        return [*classes, *seams, *pauses]

    @property
    def uncaught(self) -> int:
        """How many programs ended over an error that nobody expected."""
        return sum(n for text, n in self.errors.items() if "uncaught error" in text)

    @property
    def passed(self) -> bool:
        """Whether every invariant holds, and enough was done to the system to say so."""
        enough = not self.short and not self.absent
        return self.quiet and enough and not self.violations and not self.uncaught


class Run:
    """Puts the parts together."""

    def __init__(self, folder: Path, rng: random.Random, jobs: int, rounds: float) -> None:
        self._folder = folder
        self._rng = rng
        self._jobs = jobs
        self._rounds = rounds
        self._journal = Journal()

    async def go(self) -> Outcome:
        """Run to the end, and look."""
        begun = time.monotonic()
        async with running(self._folder) as system:
            await system.settle_down()
            load = Load(system.doors, self._jobs, random.Random(self._rng.random()))
            load.trickles = True  # an accident needs work to strike
            await load.prepare()
            async with beside(keep_count(system, load), load.operate()):
                await self._suffer(system, load)
            rested = await quiet(system)
            history = await read_all(system, load)
        return Outcome(
            time.monotonic() - begun,
            history,
            check(history),
            self._journal,
            load,
            rested,
            system.ends(),
            system.errors(),
            self._rounds,
        )

    async def _suffer(self, system: System, load: Load) -> None:
        """Let all accidents happen that come to their turn in time, and work go on meanwhile."""
        scene = scene_of(system, random.Random(self._rng.random()), self._journal)
        accidents = Accidents(actions_on(scene), self._journal)
        names = plan(self._rng, self._rounds)
        at_servers = [name for name in names if strikes_servers(name)]
        others = [name for name in names if not strikes_servers(name)]
        until = time.monotonic() + _ROUND_S * max(self._rounds, 1.0)

        async def lane(left: list[str]) -> None:
            while left and time.monotonic() < until:
                name = left.pop()
                load.share = 1 - len(at_servers + others) / len(names)
                await accidents.strike(name)

        async def strike() -> None:
            lanes = [at_servers] * _LANES_AT_SERVERS + [others] * _LANES
            await asyncio.gather(*map(lane, lanes))
            self._journal.missed.update(at_servers + others)  # for want of time
            load.share, load.trickles = 1.0, False

        await asyncio.gather(load.submit_all(), strike())


async def keep_count(system: System, load: Load) -> None:
    """Tell the load how many jobs have not ended, until cancelled."""
    while True:
        with contextlib.suppress(*DRIVER_ERRORS):
            async with system.looking() as db:
                await load.watch(db)
        await asyncio.sleep(0.2)


async def quiet(system: System) -> bool:
    """Wait until every job has ended, and tell whether that came: the history says which hang."""

    async def over() -> bool:
        with contextlib.suppress(*DRIVER_ERRORS):
            async with system.looking() as db:
                return await count_live(db) == 0
        return False

    with contextlib.suppress(AssertionError):
        return await eventually(over, within_s=_QUIET_S, what="the end of all jobs")
    return False


async def read_all(system: System, load: Load, lease_s: float = LEASE_S) -> History:
    """Return what is known of every job, once its events have arrived in Kafka."""
    rules = Rules(lease_s, max_running={QUEUES[1]: NARROW_LIMIT})
    listener = Listener(system.broker, TOPIC)
    try:
        async with system.looking() as db:
            published = await read_kafka(listener, db, within_s=_KAFKA_S)
            return await read_history(db, rules, load.calls, system.notes, published)
    finally:
        listener.close()


@asynccontextmanager
async def beside(*works: object) -> AsyncIterator[None]:
    """Run these until the block ends; one that fails fails the block."""
    tasks = [asyncio.ensure_future(work) for work in works]  # type: ignore[call-overload]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
