"""Wakes idle workers when jobs become claimable: one NOTIFY for whatever gathered.

NOTIFY takes a lock of the whole cluster until its transaction has committed. So a transaction that
stores a job carries a hint rarely: when none did for four times as long as the last one took. That
is whoever comes alone, for whom it saves several wake-ups of processes on the way to a worker.
All others are told of by a NOTIFY of its own behind the commit, not more often than every few
milliseconds. A hint that is lost costs a worker one poll.
"""

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.runtime.service import Service
from jobqueue.store.faults import translated
from jobqueue.store.pool import Connection, connect
from jobqueue.store.wakeups import hint_of, notify_queues

_GAP_S = 0.005
_RIDE_REST, _LONGEST_REST_S = 4, 1.0
"""So many times as long as a statement with a hint took, the next ones have none; up to 1 s."""

_TIMEOUT_S = 5.0
_IDLE_S = 30.0


class Announcer(Service):
    """Sends hints on a connection of its own, so that a busy pool does not delay them."""

    def __init__(
        self,
        dsn: str,
        *,
        connect_timeout_s: float = 3.0,
        pgbouncer: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__("announcer", interval_s=_IDLE_S, clock=clock)
        self._dsn = dsn
        self._connect_timeout_s = connect_timeout_s
        self._pgbouncer = pgbouncer
        self._gathered: set[str] = set()
        self._connection: Connection | None = None
        self._ride_from = -math.inf

    @contextmanager
    def ride(self, queues: Iterable[str]) -> Iterator[str | None]:
        """Lend the hint of ``queues`` to the statement in this block, to send with its commit.

        None: it must not, or there is nothing to tell; have them announced after the commit.
        """
        begun = self._clock.monotonic()
        hint = hint_of(queues) if begun >= self._ride_from else None
        if hint is None:
            yield None
            return
        self._ride_from = math.inf
        try:
            yield hint
        finally:
            ended = self._clock.monotonic()
            self._ride_from = ended + min(_RIDE_REST * (ended - begun), _LONGEST_REST_S)

    def announce(self, queues: Iterable[str]) -> None:
        """Have the workers of ``queues`` told soon. Never blocks, never raises."""
        self._gathered.update(queues)
        if self._gathered:
            self.wake()

    async def turn(self) -> float | None:
        """Send what gathered, then rest for as long as the next may gather."""
        queues, self._gathered = self._gathered, set()
        if not queues:
            return None
        try:
            with translated():
                async with asyncio.timeout(_TIMEOUT_S):
                    await notify_queues(await self._connected(), queues)
        except BaseException:
            self._drop()
            raise
        await asyncio.sleep(_GAP_S)
        return None

    async def teardown(self) -> None:
        """Close the connection."""
        self._drop()

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(
                self._dsn,
                connect_timeout_s=self._connect_timeout_s,
                pgbouncer=self._pgbouncer,
                application_name="jq-announcer",
            )
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
