"""One run: a system, a load, accidents, quiet, and the verdict."""

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from jobqueue.store.faults import DRIVER_ERRORS
from tests.chaos.accidents import Accidents, actions_on
from tests.chaos.checker import Violation, check
from tests.chaos.history import History, Rules
from tests.chaos.journal import Journal
from tests.chaos.load import Load
from tests.chaos.plan import KINDS, LEAST, SEAMS, SHARES, plan, strikes_servers
from tests.chaos.reading import note_promises, read_history, read_kafka, read_promises
from tests.chaos.rest import idlers, is_killed_by_a_job, quiet
from tests.chaos.rules_of_the_whole import most_held
from tests.chaos.scene import scene_of
from tests.chaos.system import (
    BACKOFF_S,
    LEASE_S,
    NARROW_LIMIT,
    QUEUES,
    TOPIC,
    System,
    running,
)
from tests.support.kafka import Listener

_LANES_AT_SERVERS, _LANES = 2, 3
_ROUND_S = 1_500.0
"""Only against a hang: a round takes a seventh of that, and several times as long where others work
beside it. What is not struck by then is missed."""

_KAFKA_S = 60.0
_ORDERLY = frozenset({0, 1, 3, -signal.SIGKILL, -signal.SIGTERM})
"""How a program may end: as documented, or by a signal that it was sent and does not catch."""

SEEN = (
    *("TTL_EXPIRED", "TIMED_OUT", "RELEASED", "OPERATOR_RETRY", "CANCELLED", "RETRY_LATER"),
    *("RETRY_DUE", "LEASE_EXPIRED", "REFUSED", "RETRIES_EXHAUSTED", "CRASH_LIMIT"),
)
"""Moves that rules judge, so a round must have had them."""

EXPECTED = frozenset(
    {"a turn failed, trying again: keeper: RuntimeError: the keeper process ended with -9"}
)
"""What programs log as errors over an accident, here of one that killed a keeper: all there is."""


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
    idle: Sequence[str] = ()
    """Programs that did nothing at last, though there was work and nothing happened (I16)."""

    @property
    def short(self) -> dict[str, int]:
        """What a whole round must bring and this one did not, by kind."""
        landed = {kind: self.journal.count(*names) for kind, names in KINDS.items()}
        return {kind: n for kind, n in landed.items() if n < LEAST[kind] * self.rounds}

    @property
    def absent(self) -> list[str]:
        """What did not happen once in a whole round, by name: accidents, moves, a long pause."""
        if self.rounds < 1:
            return []
        accidents = [name for name in (*SHARES, *SEAMS) if not self.journal.landed[name]]
        seen = self.history.reasons
        moves = [reason for reason in SEEN if reason not in seen]
        return [*accidents, *moves, *self._unlived]

    @property
    def _unlived(self) -> list[str]:
        """What the accidents and the load must have led to, and what it is when they did not."""
        journal, history = self.journal, self.history
        reached = {
            "a pause longer than a lease": journal.long_pauses,
            "an orderly end after SIGTERM": journal.orderly_ends,
            "a kill of a worker that held leases": journal.struck_at_work,
            "a lease that outlasted its first term": history.renewed,
            "a lease that was lost after a renewal": history.renewed_and_lost,
            "a delayed job that was claimed": history.awaited,
            "a submission without an answer": self.load.unanswered,
            "a repeat of a key": self.load.repeats,
            "a repeat of a key without an answer": self.load.doubted,
            **{
                f"a full {queue}": most_held(history, queue) == limit
                for queue, limit in history.rules.max_running.items()
            },
        }
        return [what for what, came in reached.items() if not came]

    @property
    def crashed(self) -> dict[str, int]:
        """Ends that no program may come to, by kind of program and exit code."""
        return {end: n for end, n in self.ends.items() if int(end.split()[1]) not in _ORDERLY}

    @property
    def unexpected(self) -> dict[str, int]:
        """Errors that no accident accounts for."""
        return {text: n for text, n in self.errors.items() if text not in EXPECTED}

    @property
    def passed(self) -> bool:
        """Whether every invariant holds, and enough was done to the system to say so."""
        enough = not self.short and not self.absent
        unwell = self.violations or self.unexpected or self.crashed or self.journal.unmet
        return self.quiet and enough and not self.idle and not unwell


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
            async with system.looking() as db:
                await note_promises(db)
            load = Load(system.doors, self._jobs, random.Random(self._rng.random()))
            load.trickles = True  # an accident needs work to strike
            await load.prepare()
            async with beside(keep_count(system, load), load.operate()):
                await self._suffer(system, load)
            rested = await quiet(system) and await is_killed_by_a_job(system, load)
            idle = await idlers(system, load)
            history = await read_all(system, load)
            async with system.looking() as db:
                promised = await read_promises(db)
        history = replace(history, promised=promised, stops=self._journal.stops)
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
            idle,
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


async def read_all(system: System, load: Load, lease_s: float = LEASE_S) -> History:
    """Return what is known of every job, once its events have arrived in Kafka."""
    rules = Rules(lease_s, max_running={QUEUES[1]: NARROW_LIMIT}, backoff_s=BACKOFF_S)
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
