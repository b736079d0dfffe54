"""What every worker does with its leases, wherever they live: keep, settle, pass news on.

A subclass opens the way to them, claims and starts, and writes outcomes.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from collections.abc import Set as AbstractSet

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Outcome
from jobqueue.domain.worker import WorkerCommand
from jobqueue.lease.errands import Errands
from jobqueue.lease.interface import (
    Answered,
    CancelRequested,
    CommandReceived,
    Forgotten,
    LeaseGone,
    News,
)
from jobqueue.lease.keeper import Keeper
from jobqueue.lease.settler import Ending, Settler, Written
from jobqueue.lease.signals import LEASES_LOST, LEASES_RENEWED, LeaseLoss
from jobqueue.lease.tally import count_jobs

OPEN_TIMEOUT_S = 30.0
"""A worker that is not registered within this tries again from the start."""


class Holder(ABC):
    """The shared half of the ``Leases`` of one worker process. Make it on the running loop."""

    def __init__(self) -> None:
        self.hold_limit_s = math.inf
        self._kept: Keeper | None = None
        self._settling: Settler | None = None
        self._hint = asyncio.Event()
        self._errands = Errands()
        self._callbacks: list[Callable[[News], None]] = []
        self._claiming = True

    def stop_claiming(self) -> None:
        """Claims that wait for their turn take nothing from now on."""
        self._claiming = False

    async def start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        """Start prefetched jobs; forget those that could not be."""
        if not leases:
            return frozenset()
        return await self._errands.run(self._start(leases), lambda _: None)

    def settle(self, job: LeasedJob, outcome: Outcome, answered: Answered) -> None:
        """Record an outcome; ``answered`` hears False when the lease is lost."""
        if self._keeper.job(job.lease) is None:
            asyncio.get_running_loop().call_soon(answered, [job], False, None)
        else:
            self._settler.settle(Ending(job, outcome), answered)

    def set_deadline(self, lease: Lease, seconds: float) -> None:
        """Renew this lease for ``seconds`` from now at most."""
        self._keeper.set_deadline(lease, seconds)

    def on_news(self, callback: Callable[[News], None]) -> None:
        """Call ``callback`` with all news from now on."""
        self._callbacks.append(callback)

    async def wait_for_work(self, timeout_s: float) -> bool:
        """Wait for a hint that came since the last claim began."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._hint.wait()
        except TimeoutError:
            return False
        self._hint.clear()
        return True

    async def set_draining(self) -> None:
        """Show the worker as DRAINING with the next beat, which comes now."""
        self._keeper.drain()

    def beat(self) -> None:
        """Say that claims came round."""
        self._keeper.beat()

    # What the keeper says.

    def renewed(self, jobs: Sequence[LeasedJob]) -> None:
        """Count renewals."""
        count_jobs(LEASES_RENEWED, jobs)

    def lost(self, leases: Sequence[Lease], why: str) -> None:
        """Pass on that leases are gone; of one with its outcome on the way the answer decides."""
        for lease in leases:
            if lease not in self._settler:
                self._lose(lease, why)

    def cancelled(self, leases: Sequence[Lease]) -> None:
        """Pass on cancel requests."""
        for lease in leases:
            if self._keeper.job(lease) is not None:
                self._publish(CancelRequested(lease))

    def commanded(self, command: WorkerCommand) -> None:
        """Pass on an operator's command."""
        self._publish(CommandReceived(command))

    def forgotten(self) -> None:
        """Pass on that the worker has another number now."""
        self._publish(Forgotten())

    # For subclasses.

    @abstractmethod
    async def _start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        """Start prefetched jobs, and forget those that could not be; return what runs."""

    @abstractmethod
    def _flush(self, batch: Sequence[Ending]) -> AsyncIterator[Written]:
        """Write outcomes, as ``settler.Flush`` says."""

    @abstractmethod
    def _jobs_ended(self, queues: AbstractSet[str]) -> None:
        """Take note that jobs of these queues are settled."""

    @property
    def _keeper(self) -> Keeper:
        assert self._kept is not None, "open() comes first"
        return self._kept

    @property
    def _settler(self) -> Settler:
        assert self._settling is not None, "open() comes first"
        return self._settling

    async def _keep(self, keeper: Keeper, lease_s: float) -> int:
        """Hold leases of ``lease_s`` seconds by ``keeper``; return the worker's number.

        Raises Unavailable when the worker is not registered within 30 s; nothing is kept then.
        """
        self._kept = keeper
        self._settling = Settler(self._flush, self._ended, self._let_lapse, patience_s=lease_s)
        await keeper.start()
        try:
            number = await keeper.registered(OPEN_TIMEOUT_S)
        except BaseException:
            await keeper.stop()
            raise
        keeper.beat()  # from here on claims come round
        return number

    async def _finish(self) -> None:
        """Record what is on its way, then end the keeper: a beat would bring the worker back."""
        await self._errands.finish()
        await self._settler.drain()
        await self._keeper.stop()

    def _lose(self, lease: Lease, why: str) -> None:
        if self._forget_lost(lease, why):
            self._publish(LeaseGone(lease))

    def _forget_lost(self, lease: Lease, why: str) -> bool:
        job = self._keeper.drop(lease)
        if job is None:
            return False
        LEASES_LOST.emit(LeaseLoss(lease, job.job_id, job.queue, why))
        return True

    def _forget_unstarted(self, lease: Lease) -> None:
        """Drop one that was not ours to start; of one with its outcome on the way that decides."""
        if lease not in self._settler:
            self._forget_lost(lease, "it was lost before it was started")

    def _let_lapse(self, leases: Sequence[Lease]) -> None:
        """Renew these no more: their outcomes cannot be written now, and may never be."""
        for lease in leases:
            self._keeper.set_deadline(lease, 0.0)

    def _ended(self, leases: Sequence[Lease], *, settled: bool) -> None:
        if settled:
            dropped = self._keeper.drop_all(leases)
            self._jobs_ended({job.queue for job in dropped})
        else:
            for lease in leases:
                self._forget_lost(lease, "its outcome was refused")

    def _hand_back(self, jobs: Sequence[LeasedJob], outcome: Outcome) -> None:
        """Settle jobs that nobody waits for."""
        for job in jobs:
            self.settle(job, outcome, _unheard)

    def _publish(self, news: News) -> None:
        for callback in self._callbacks:
            callback(news)


def _unheard(_jobs: Sequence[LeasedJob], _held: bool, _error: Exception | None) -> None:  # noqa: FBT001 - as ``Answered``
    """Nobody waits for this answer."""
