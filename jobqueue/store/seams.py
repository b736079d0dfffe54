"""Accidents at the edges of statements, for programs that were started with ``JQ_SEAMS``.

Without it nothing here is on the way of a statement: connections are of the driver's own class.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import Any, TypeVar

import asyncpg

from jobqueue.config.seams import VARIABLE, Seam, read_seams
from jobqueue.errors import Fault, SettingsError
from jobqueue.runtime.log import get_logger
from jobqueue.store.statements import name_of, names

T = TypeVar("T")
_log = get_logger(__name__)


@cache
def connection_class() -> "type[asyncpg.Connection[asyncpg.Record]]":
    """Return the class of this program's connections.

    Raises SettingsError when ``JQ_SEAMS`` names a statement that there is not.
    """
    seams = read_seams(os.environ.get(VARIABLE, ""))
    if not seams:
        return asyncpg.Connection
    if unknown := {seam.split(".")[0] for seam in seams} - set(names()):
        raise SettingsError([Fault(VARIABLE, f"no statement is called {', '.join(unknown)}")])
    accidents = Accidents(seams)
    return type("ArmedConnection", (SeamedConnection,), {"accidents": accidents})


class Accidents:
    """Counts how often each seam was passed, and lets happen what is due."""

    def __init__(
        self, seams: Mapping[str, Seam], chance: Callable[[], float] | None = None
    ) -> None:
        self._seams = seams
        self._passed: Counter[str] = Counter()
        self._chance = chance or random.SystemRandom().random

    def judges(self, seam: str) -> bool:
        """Tell whether it depends on the answer what happens here."""
        due = self._seams.get(seam)
        return due is not None and bool(due.only)

    def at(
        self,
        seam: str,
        connection: "asyncpg.Connection[asyncpg.Record]",
        answer: object = None,
    ) -> None:
        """Pass a seam. Raises ConnectionDoesNotExistError when the connection was cut here."""
        due = self._seams.get(seam)
        if due is None or not _has(answer, due.only) or not self._is_time(seam, due):
            return
        # The log is written to its file before this returns: it is the proof.
        _log.warning("a seam gives", seam=seam, accident=due.accident, pid=os.getpid())
        if due.accident == "cut":
            connection.terminate()
            raise asyncpg.ConnectionDoesNotExistError("the connection was cut at a seam")
        os.kill(os.getpid(), signal.SIGKILL if due.accident == "kill" else signal.SIGSTOP)

    def _is_time(self, seam: str, due: Seam) -> bool:
        if due.nth is None:
            return self._chance() < due.share
        self._passed[seam] += 1
        return self._passed[seam] == due.nth


def _has(answer: object, only: str) -> bool:
    """Tell whether an answer has what a seam asks for: nothing, rows, or a word."""
    if not only:
        return True
    rows = answer if isinstance(answer, list) else [answer]
    found = [row for row in rows if isinstance(row, asyncpg.Record)]
    return any(only in {"rows", row.get("answer")} for row in found)


class SeamedConnection(asyncpg.Connection):
    """Passes a seam before each statement, after it, and after the commit that makes it last."""

    accidents: Accidents

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._undecided: list[tuple[str, object]] = []

    async def fetch(self, query: str, *args: Any, **kwargs: Any) -> Any:
        """Do as the driver."""
        return await self._pass(query, partial(super().fetch, query, *args, **kwargs))

    async def fetchrow(self, query: str, *args: Any, **kwargs: Any) -> Any:
        """Do as the driver."""
        return await self._pass(query, partial(super().fetchrow, query, *args, **kwargs))

    async def fetchval(self, query: str, *args: Any, **kwargs: Any) -> Any:
        """Do as the driver."""
        return await self._pass(query, partial(super().fetchval, query, *args, **kwargs))

    async def execute(self, query: str, *args: Any, **kwargs: Any) -> str:
        """Do as the driver."""
        return await self._pass(query, partial(super().execute, query, *args, **kwargs))

    async def _pass(self, query: str, send: Callable[[], Awaitable[T]]) -> T:
        name = name_of(query)
        if self.accidents.judges(f"{name}.before") and not self.is_in_transaction():
            return await self._pass_alone(name, send)
        self.accidents.at(f"{name}.before", self)
        return await self._send(name, send)

    async def _pass_alone(self, name: str, send: Callable[[], Awaitable[T]]) -> T:
        """Send it in a transaction: what it would have done is known before any of it lasts."""
        own = self.transaction()
        await own.start()
        try:
            answer = await self._send(name, send)
        except BaseException:
            if not self.is_closed():
                await own.rollback()
            raise
        self.accidents.at(f"{name}.before", self, answer)
        await own.commit()
        return answer

    async def _send(self, name: str, send: Callable[[], Awaitable[T]]) -> T:
        answer = await send()
        if self.is_in_transaction():
            self._undecided.append((name, answer))
            self.accidents.at(f"{name}.open", self, answer)
            return answer
        lasting = [*self._undecided, (name, answer)] if name != "rollback" else []
        self._undecided.clear()
        for each, had in lasting:
            self.accidents.at(f"{each}.after", self, had)
        return answer
