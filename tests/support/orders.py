"""Several moves of one job at once: whatever they do must be what some order of them would do.

Each order is forced by locks. In a chain every move begins while the one before it holds the job,
uncommitted. In a crowd all of them begin, in that order, while somebody else holds it. Moves that
skip what is held may find nothing: that is the same as if they had not come.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from typing import NamedTuple
from uuid import UUID

from jobqueue.domain.state import TERMINAL
from jobqueue.lease.takeover import Takeover, expired
from jobqueue.store.jobs import cancel_job
from jobqueue.store.pool import Connection
from tests.support.store import expire_leases, path, status, waits_for_lock
from tests.support.waiting import eventually

Move = Callable[[Connection], Awaitable[str]]
"""Does something to the job and returns what it was answered."""

SKIPPED = "0"
"""What a move answers that found nothing to do."""


_END = "SELECT finished_at FROM jobqueue.job_status WHERE job_id = $1"


class Result(NamedTuple):
    """What everybody was told, and what is on record."""

    answers: frozenset[tuple[str, str]]
    path: tuple[str, ...]
    status: str | None
    has_end: bool
    """Whether the record says when it ended."""


class Subject(NamedTuple):
    """A job that is about to be moved, and who may move it how, by name."""

    job_id: UUID
    moves: Mapping[str, Move]


Prepare = Callable[[Connection], Awaitable[Subject]]
"""Makes a fresh subject; the names of its moves are always the same."""


@dataclass
class Rivals:
    """Runs moves against each other, each on a connection of its own."""

    db: Connection
    holder: Connection
    connections: Sequence[Connection]
    prepare: Prepare
    waited: set[str] = field(default_factory=set)
    """Moves that were seen to wait for another one's lock."""
    _serial: set[Result] = field(default_factory=set)

    async def learn(self, skipping: Collection[str]) -> Sequence[str]:
        """Let the moves come one after the other in every order, and these be left out or not.

        Returns their names.
        """
        sample = await self.prepare(self.db)
        await end(self.db, sample)
        names = sorted(sample.moves)
        for order, absent in _histories(names, skipping):
            subject = await self.prepare(self.db)
            answers = dict.fromkeys(absent, SKIPPED)
            for name in order:
                answers[name] = await subject.moves[name](self.db)
            self._serial.add(await self._result(subject, answers))
        return names

    async def chain(self, order: Sequence[str]) -> Result:
        """Let each begin while the one before it is done and not committed."""
        subject = await self.prepare(self.db)
        answers: dict[str, str] = {}
        before = None
        for name, connection in zip(order, self.connections, strict=False):
            now = connection.transaction()
            await now.start()
            moving = asyncio.ensure_future(subject.moves[name](connection))
            await self._has_met_it(name, connection, moving)
            if before is not None:
                await before.commit()
            answers[name] = await moving
            before = now
        assert before is not None
        await before.commit()
        return await self._result(subject, answers)

    async def crowd(self, order: Sequence[str]) -> Result:
        """Let all of them begin, one after the other, while the job's lease is held."""
        subject = await self.prepare(self.db)
        moving: dict[str, asyncio.Future[str]] = {}
        async with self.holder.transaction():
            held = await self.holder.fetch(
                "SELECT FROM jobqueue.leases l JOIN jobqueue.jobs j USING (id) "
                "WHERE j.job_id = $1 FOR UPDATE OF l",
                subject.job_id,
            )
            assert len(held) == 1
            for name, connection in zip(order, self.connections, strict=False):
                moving[name] = asyncio.ensure_future(subject.moves[name](connection))
                await self._has_met_it(name, connection, moving[name])
        answers = {name: await moved for name, moved in moving.items()}
        return await self._result(subject, answers)

    def explain(self, result: Result) -> bool:
        """Tell whether the moves could have come one after the other and done the same.

        An end has a time, and nothing else has one.
        """
        return result in self._serial and result.has_end is (result.status in TERMINAL)

    async def _has_met_it(
        self, name: str, connection: Connection, moving: asyncio.Future[str]
    ) -> None:
        async def met() -> bool:
            if await waits_for_lock(self.db, connection):
                self.waited.add(name)
                return True
            return moving.done()

        await eventually(met, what="a move that waits or is done")

    async def _result(self, subject: Subject, answers: Mapping[str, str]) -> Result:
        """Read what came of it, and end the job, so that the next one is alone."""
        record = tuple(await path(self.db, subject.job_id))
        found = await status(self.db, subject.job_id)
        end_at = await self.db.fetchval(_END, subject.job_id)
        await end(self.db, subject)
        return Result(frozenset(answers.items()), record, found, end_at is not None)


async def end(db: Connection, subject: Subject) -> None:
    """Let a job move no more, wherever it is."""
    await cancel_job(db, subject.job_id, running=True)
    await expire_leases(db)
    await Takeover(expired(), page_size=10, crash_limit=3).step(db)


def _histories(
    names: Collection[str], skipping: Collection[str]
) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    for count in range(len(skipping) + 1):
        for absent in combinations(skipping, count):
            for order in permutations(set(names) - set(absent)):
                yield order, frozenset(absent)
