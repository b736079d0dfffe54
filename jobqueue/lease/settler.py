"""Ends leases in batches (R-4.2): an outcome is recorded once, or the caller hears that it is not.

Natural batching: while one flush is in flight the next gathers. No timer: an idle worker settles
at once, a busy one in batches as large as its database is slow.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from jobqueue.domain.lease import Lease
from jobqueue.domain.outcome import Settlement
from jobqueue.errors import JobQueueError
from jobqueue.lease.hot import TRANSIENT
from jobqueue.lease.signals import SETTLE_REFUSED, SettleRefused
from jobqueue.store.faults import backoff_s

MAX_BATCH = 500

Flush = Callable[[Sequence[Settlement]], Awaitable[frozenset[Lease]]]
"""Writes settlements in one transaction; returns those that took effect, now or by an earlier try
whose answer was lost. The others had lost their lease."""

Substitute = Callable[[Settlement, JobQueueError], Settlement]
"""Returns what to record in place of an outcome that the database refuses."""


class Ended(Protocol):
    """Hears of every answer, also of one whose caller has gone."""

    def __call__(self, lease: Lease, *, settled: bool) -> None:
        """``settled`` is False when the outcome was not recorded."""


class Settler:
    """Joins concurrent ``settle`` calls into flushes of at most ``MAX_BATCH``.

    Flushes belong to the settler: a caller that is cancelled does not take others' outcomes, nor
    its own, down with it. Transient errors are retried for ``patience_s``, the time after which
    no lease that could not be renewed meanwhile is held any more.
    """

    def __init__(
        self, flush: Flush, substitute: Substitute, ended: Ended, *, patience_s: float
    ) -> None:
        self._flush = flush
        self._ended = ended
        self._substitute = substitute
        self._patience_s = patience_s
        self._answers: dict[Lease, asyncio.Future[bool]] = {}
        self._gathered: list[Settlement] = []
        self._task: asyncio.Task[None] | None = None

    def __contains__(self, lease: Lease) -> bool:
        """Tell whether an outcome of this lease is on its way."""
        return lease in self._answers

    async def settle(self, settlement: Settlement) -> bool:
        """Return True when the outcome is recorded, False when the lease was lost.

        A second outcome for a lease whose first is still on its way gets the first one's answer.
        Raises what the database says when it refuses even the substitute.
        """
        answer = self._answers.get(settlement.lease)
        if answer is None:
            answer = asyncio.get_running_loop().create_future()
            self._answers[settlement.lease] = answer
            self._gathered.append(settlement)
            self._ensure_flushing()
        return await asyncio.shield(answer)

    async def drain(self) -> None:
        """Wait until every gathered outcome has its answer."""
        while self._task is not None:
            await asyncio.shield(self._task)

    def _ensure_flushing(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._flush_gathered(), name="settle")

    async def _flush_gathered(self) -> None:
        # The task begins after the callers that run in this turn of the loop have all come.
        try:
            while self._gathered:
                batch = self._gathered[:MAX_BATCH]
                del self._gathered[:MAX_BATCH]
                await self._settle_batch(batch)
        finally:
            self._task = None

    async def _settle_batch(self, batch: Sequence[Settlement]) -> None:
        try:
            settled = await self._persist(batch)
        except TRANSIENT:
            settled = frozenset()
        except JobQueueError as error:
            await self._split(batch, error)
            return
        except Exception as error:  # noqa: BLE001 - the callers of this batch hear it
            self._fail(batch, error)
            return
        self._conclude(batch, settled)

    async def _persist(self, batch: Sequence[Settlement]) -> frozenset[Lease]:
        """Flush, and flush again over transient errors until patience ends."""
        for pause in _pauses(self._patience_s):
            try:
                return await self._flush(batch)
            except TRANSIENT:
                await asyncio.sleep(pause)
        return await self._flush(batch)

    async def _split(self, batch: Sequence[Settlement], error: JobQueueError) -> None:
        """Halve a refused batch until the one outcome that is at fault stands alone."""
        if len(batch) == 1:
            await self._replace(batch[0], error)
            return
        middle = len(batch) // 2
        await self._settle_batch(batch[:middle])
        await self._settle_batch(batch[middle:])

    async def _replace(self, settlement: Settlement, error: JobQueueError) -> None:
        """Record that the outcome could not be recorded, rather than nothing."""
        SETTLE_REFUSED.emit(SettleRefused(settlement.lease, error))
        try:
            settled = await self._persist([self._substitute(settlement, error)])
        except TRANSIENT:
            settled = frozenset()
        except JobQueueError as refused:
            self._fail([settlement], refused)
            return
        self._conclude([settlement], settled)

    def _fail(self, batch: Sequence[Settlement], error: Exception) -> None:
        for settlement in batch:
            self._answers.pop(settlement.lease).set_exception(error)
            self._ended(settlement.lease, settled=False)

    def _conclude(self, batch: Sequence[Settlement], settled: frozenset[Lease]) -> None:
        for settlement in batch:
            lease = settlement.lease
            self._answers.pop(lease).set_result(lease in settled)
            self._ended(lease, settled=lease in settled)


def _pauses(patience_s: float) -> Iterator[float]:
    """Yield jittered, growing pauses until ``patience_s`` is over."""
    deadline = time.monotonic() + patience_s
    number = 0
    while time.monotonic() < deadline:
        yield backoff_s(number)
        number += 1
