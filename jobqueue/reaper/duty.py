"""What all duties of the reaper share: a loop that works on one connection of the pool.

A duty may be told to act only at times, because another replica acts at the others. That saves
work and no more: every duty is safe when all replicas perform it at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from jobqueue.runtime.service import Service
from jobqueue.store.faults import translated
from jobqueue.store.pool import STATEMENT_TIMEOUT_S, Connection, Pool
from jobqueue.store.wakeups import notify_queues

T = TypeVar("T")


class Duty(Service):
    """A loop with a pool. Subclass it and write ``act``.

    Every wait on the database is bounded, so that none ends the loop.
    """

    def __init__(
        self,
        name: str,
        pool: Pool,
        *,
        interval_s: float,
        timeout_s: float = STATEMENT_TIMEOUT_S,
    ) -> None:
        super().__init__(name, interval_s=interval_s, bound_s=2 * interval_s + timeout_s)
        self._pool = pool
        self._timeout_s = timeout_s
        self._may_act: Callable[[], bool] = _always

    def only_while(self, may_act: Callable[[], bool]) -> Self:
        """Act in those turns alone in which ``may_act`` says so; the others are skipped."""
        self._may_act = may_act
        return self

    async def act(self) -> float | None:
        """Do one bounded piece of work; answer as ``turn`` does."""
        raise NotImplementedError

    async def turn(self) -> float | None:
        """Act, or stand by until the next turn."""
        return await self.act() if self._may_act() else None

    async def work(
        self, work: Callable[[Connection], Awaitable[T]], *, within_s: float | None = None
    ) -> T:
        """Lend a connection to ``work``. Raises our errors, DeadlineExceeded after too long.

        That is after ``within_s`` seconds, or after what the duty allows each piece of its work.
        """
        with translated():
            async with (
                asyncio.timeout(self._timeout_s if within_s is None else within_s),
                self._pool.acquire() as connection,
            ):
                return await work(connection)

    async def timed(self, work: Callable[[Connection], Awaitable[T]]) -> tuple[T, float]:
        """Do ``work`` likewise; return also the seconds it took once it had the connection."""

        async def measured(connection: Connection) -> tuple[T, float]:
            begun = time.monotonic()
            result = await work(connection)
            return result, time.monotonic() - begun

        return await self.work(measured)

    async def announce(self, queues: frozenset[str]) -> None:
        """Wake the idle workers of these queues; call it after the commit."""
        if queues:
            await self.work(lambda c: notify_queues(c, queues))


def _always() -> bool:
    return True
