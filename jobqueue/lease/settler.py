"""Ends leases in batches (R-4.2): an outcome is recorded once, or who asked hears that it is not.

Natural batching: while one flush is in flight the next gathers. No timer: an idle worker settles
at once, a busy one in batches as large as its database is slow.
"""

import asyncio
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import accumulate
from typing import Protocol

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.limits import Limits, safe_text
from jobqueue.domain.outcome import Completed, Failed, Outcome, Refused, Released
from jobqueue.domain.records import record
from jobqueue.errors import DeadlineExceeded, JobQueueError
from jobqueue.lease.hot import TRANSIENT
from jobqueue.lease.interface import Answered
from jobqueue.lease.signals import ANSWER_BROKE, SETTLE_REFUSED, AnswerBroke, SettleRefused
from jobqueue.runtime.tasks import start_detached
from jobqueue.store.faults import backoff_s

MAX_BATCH, MAX_BYTES = 500, 1024 * 1024
"""Of what is written together, but for one that is larger alone: results that do not cross a slow
network in the time of one statement cost the leases of all that wait with them."""


@record
class Ending:
    """What came of one attempt."""

    job: LeasedJob
    outcome: Outcome

    @property
    def lease(self) -> Lease:
        """The lease that ends."""
        return self.job.lease


Written = tuple[Sequence[Ending], AbstractSet[Lease]]
"""Outcomes that were written, and the leases of those that took effect, now or by an earlier try
whose answer was lost. The others had lost their lease."""

Flush = Callable[[Sequence[Ending]], AsyncIterator[Written]]
"""Writes outcomes, and yields each part when it is written. After an error any of the others may
have taken effect; to write them again, in any parts, is safe."""


class Ended(Protocol):
    """Hears of every answer, before those who asked."""

    def __call__(self, leases: Sequence[Lease], *, settled: bool) -> None:
        """``settled`` is False when the outcomes were not recorded. Must not raise."""


class Settler:
    """Joins ``settle`` calls into flushes of at most ``MAX_BATCH``.

    Flushes belong to the settler: nobody who is cancelled takes an outcome down with him. After a
    transient error the leases are ``stuck``, which is told once, and it is tried again for
    ``patience_s``: as long as a lease lasts that is not renewed from then on. So whoever hears that
    an outcome is not recorded knows that its lease is over (R-4.1).
    """

    def __init__(
        self,
        flush: Flush,
        ended: Ended,
        stuck: Callable[[Sequence[Lease]], None],
        *,
        patience_s: float,
    ) -> None:
        self._flush = flush
        self._ended = ended
        self._stuck = stuck
        self._patience_s = patience_s
        self._answers: dict[Lease, Answered] = {}
        self._others: dict[Lease, list[Answered]] = {}
        self._gathered: list[Ending] = []
        self._task: asyncio.Task[None] | None = None
        self._trouble: JobQueueError | None = None

    @property
    def trouble(self) -> JobQueueError | None:
        """Why what waits could not be written at the last try; None when nothing is stuck."""
        return self._trouble

    def __contains__(self, lease: Lease) -> bool:
        """Tell whether an outcome of this lease is on its way."""
        return lease in self._answers

    def settle(self, ending: Ending, answered: Answered) -> None:
        """Record an outcome, and call ``answered`` when that is done, or is not to be.

        A second outcome for a lease whose first is still on its way gets the first one's answer.
        """
        lease = ending.job.lease
        if lease in self._answers:
            self._others.setdefault(lease, []).append(answered)
            return
        self._answers[lease] = answered
        self._gathered.append(ending)
        if self._task is None:
            self._task = start_detached(self._flush_gathered(), "settle")

    async def drain(self) -> None:
        """Wait until every gathered outcome has its answer."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _flush_gathered(self) -> None:
        # The task begins after all that ends in this turn of the loop.
        try:
            while self._gathered:
                await self._settle_batch(self._next_batch())
        finally:
            self._task = self._trouble = None

    def _next_batch(self) -> Sequence[Ending]:
        sums = list(accumulate(map(_size, self._gathered[:MAX_BATCH])))
        count = max(bisect_right(sums, MAX_BYTES), 1)
        batch = self._gathered[:count]
        del self._gathered[:count]
        return batch

    async def _settle_batch(self, batch: Sequence[Ending]) -> None:
        try:
            await self._persist(batch)
        except TRANSIENT:
            self._conclude(self._left(batch), frozenset())
        except Exception as error:  # noqa: BLE001 - whatever it is, it may be about one of them alone
            await self._split(self._left(batch), error)

    async def _persist(self, batch: Sequence[Ending]) -> None:
        """Write, and what is left again over transient errors, until patience ends."""
        try:
            await self._write(batch)
        except TRANSIENT as error:
            self._trouble = error
            self._stuck([ending.lease for ending in self._left(batch)])
            await self._persevere(batch)
        self._trouble = None

    async def _persevere(self, batch: Sequence[Ending]) -> None:
        size = len(batch)
        for pause in _pauses(self._patience_s):
            if isinstance(self._trouble, DeadlineExceeded):
                # Results may be large, and the network slow.
                size = max(min(size, len(self._left(batch))) // 2, 1)
            await asyncio.sleep(pause)
            try:
                await self._write_again(batch, size)
            except TRANSIENT as error:
                self._trouble = error
            else:
                return
        await self._write_again(batch, size)

    async def _write_again(self, batch: Sequence[Ending], size: int) -> None:
        """Write those that have no answer yet, ``size`` at a time."""
        left = self._left(batch)
        for first in range(0, len(left), size):
            await self._write(left[first : first + size], again=True)

    async def _write(self, batch: Sequence[Ending], *, again: bool = False) -> None:
        async for part, settled in self._flush(batch):
            self._conclude(part, settled | _released(part) if again else settled)

    def _left(self, batch: Sequence[Ending]) -> Sequence[Ending]:
        """Return those that have no answer yet."""
        return [ending for ending in batch if ending.lease in self._answers]

    async def _split(self, batch: Sequence[Ending], error: Exception) -> None:
        """Halve a refused batch until the one outcome that is at fault stands alone."""
        if len(batch) <= 1:
            for ending in batch:
                await self._replace(ending, error)
            return
        middle = len(batch) // 2
        await self._settle_batch(batch[:middle])
        await self._settle_batch(batch[middle:])

    async def _replace(self, ending: Ending, error: Exception) -> None:
        """Record that the outcome could not be recorded, rather than nothing."""
        SETTLE_REFUSED.emit(SettleRefused(ending.lease, error))
        try:
            await self._persist([_substitute(ending, error)])
        except TRANSIENT:
            self._conclude([ending], frozenset())
        except Exception as refused:  # noqa: BLE001 - who asked hears it
            self._fail([ending], refused)

    def _fail(self, batch: Sequence[Ending], error: Exception) -> None:
        self._answer([ending.job for ending in batch], error, settled=False)

    def _conclude(self, batch: Sequence[Ending], settled: AbstractSet[Lease]) -> None:
        jobs = [ending.job for ending in batch]
        if len(settled) == len(jobs):
            self._answer(jobs, None, settled=True)
            return
        lost = [job for job in jobs if job.lease not in settled]
        held = [job for job in jobs if job.lease in settled]
        self._answer(held, None, settled=True)
        self._answer(lost, None, settled=False)

    def _answer(self, jobs: Sequence[LeasedJob], error: Exception | None, *, settled: bool) -> None:
        if not jobs:
            return
        self._ended([job.lease for job in jobs], settled=settled)
        told: defaultdict[Answered, list[LeasedJob]] = defaultdict(list)
        for job in jobs:
            told[self._answers.pop(job.lease)].append(job)
            for answered in self._others.pop(job.lease, ()):
                told[answered].append(job)
        for answered, theirs in told.items():
            _tell(answered, theirs, error, settled=settled)


def _tell(
    answered: Answered, jobs: Sequence[LeasedJob], error: Exception | None, *, settled: bool
) -> None:
    """Give one answer. Whoever takes it badly takes nobody else's away."""
    try:
        answered(jobs, settled, error)
    except Exception as fault:  # noqa: BLE001 - told; the answers behind it must be given
        for job in jobs:
            ANSWER_BROKE.emit(AnswerBroke(job, fault))


def _size(ending: Ending) -> int:
    """Return about how many bytes an outcome takes, beside what every one does."""
    outcome = ending.outcome
    if isinstance(outcome, Completed):
        return len(outcome.result or b"")
    return len(outcome.error) if isinstance(outcome, Failed | Refused) else 0


def _released(batch: Sequence[Ending]) -> AbstractSet[Lease]:
    """Those of a repeated try of which nothing is left to do, whatever its answer.

    The database does not know a release again. If the lease is gone, the job was given back, by the
    try whose answer was lost or by the reaper.
    """
    return {ending.lease for ending in batch if isinstance(ending.outcome, Released)}


def _substitute(ending: Ending, error: Exception) -> Ending:
    """A job that was never started cannot fail: it goes back instead, without the words."""
    if not ending.job.running:
        return replace(ending, outcome=Released())
    text = f"its outcome could not be stored: {error.__cause__ or error}"
    return replace(ending, outcome=Failed(safe_text(text, Limits().error_bytes)))


def _pauses(patience_s: float) -> Iterator[float]:
    """Yield jittered, growing pauses until ``patience_s`` is over."""
    deadline = time.monotonic() + patience_s
    number = 0
    while time.monotonic() < deadline:
        yield backoff_s(number)
        number += 1
