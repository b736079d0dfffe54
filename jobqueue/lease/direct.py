"""Leases straight from PostgreSQL: what a worker with database access uses.

At most three connections a process: the hot one for claims, starts and settles; the listener for
wake-ups; the keeper's. Claims and settles take turns on the hot one (see ``hot``).
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.limits import Limits, safe_text
from jobqueue.domain.outcome import Charge, Failed, Outcome, Released, Settlement, decide
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.errors import JobQueueError
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.duties import CLAIM_FLIGHT_S
from jobqueue.lease.hot import TRANSIENT, HotConnection
from jobqueue.lease.interface import CancelRequested, CommandReceived, LeaseGone, News
from jobqueue.lease.keeper import Keeper
from jobqueue.lease.probes import ProbePlan
from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.settler import Settler
from jobqueue.lease.signals import (
    LEASES_ACQUIRED,
    LEASES_LOST,
    LEASES_RENEWED,
    LeaseCount,
    LeaseLoss,
)
from jobqueue.runtime.signals import Signal
from jobqueue.store.faults import backoff_s
from jobqueue.store.leases import LeaseAnswer, settle_leases, start_leases
from jobqueue.store.pool import Connection
from jobqueue.store.wakeups import Listener
from jobqueue.store.workers import deregister_worker

__all__ = ["DirectLeases", "LeaseSettings"]

OPEN_TIMEOUT_S = 30.0
_START_TRIES = 3
T = TypeVar("T")


class DirectLeases:
    """The ``Leases`` of one worker process on one database. Make it on the running event loop."""

    def __init__(
        self, dsn: str, settings: LeaseSettings, queues: Sequence[str], types: Sequence[str]
    ) -> None:
        """``queues`` are the names to serve, ``types`` those that have a handler here."""
        self._dsn = dsn
        self._settings = settings
        self._hot = HotConnection(
            dsn,
            name="jq-worker",
            timeout_s=settings.statement_timeout_s,
            connect_timeout_s=settings.connect_timeout_s,
            pgbouncer=settings.pgbouncer,
        )
        self._claimer = Claimer(queues, ProbePlan(frozenset(types)), settings.lease_s)
        self._settler = Settler(
            self._flush, self._substitute, self._ended, patience_s=settings.lease_s
        )
        self._listener: Listener | None = None
        self._opened: Keeper | None = None
        self._worker = 0
        self._flights: set[float] = set()
        self._hint = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._callbacks: list[Callable[[News], None]] = []

    async def open(self, facts: WorkerFacts) -> None:
        """Start the keeper, which registers the worker; then listen for wake-ups.

        Raises Unavailable when the worker is not registered within 30 s.
        """
        self._opened = Keeper(self._dsn, self._settings, facts, self)
        await self._keeper.start()
        try:
            self._worker = await self._keeper.registered(OPEN_TIMEOUT_S)
        except BaseException:
            await self._keeper.stop()
            raise
        if not self._settings.pgbouncer:
            self._listener = Listener(
                self._dsn, self._hinted, connect_timeout_s=self._settings.connect_timeout_s
            )
            await self._listener.start()

    async def claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        """Take up to ``n`` jobs. Those of a caller that is cancelled meanwhile are handed back."""
        if n <= 0:
            return []
        self._hint.clear()
        return await self._owned(self._claim(n, running=running), self._hand_back)

    async def start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        """Start prefetched jobs; forget those that could not be."""
        if not leases:
            return frozenset()
        return await self._owned(self._start(leases), lambda _: None)

    async def settle(self, settlement: Settlement) -> bool:
        """Record an outcome; False when the lease is lost."""
        if self._keeper.job(settlement.lease) is None:
            return False
        return await self._settler.settle(settlement)

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
        """Say that the worker's loop turned."""
        self._keeper.beat()

    async def close(self) -> None:
        """Record what is on its way, end the keeper, deregister, close the connections."""
        if self._opened is None:
            return
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._settler.drain()
        await self._opened.stop()  # before the row goes: a beat would bring it back
        if self._listener is not None:
            await self._listener.stop()
        with contextlib.suppress(*TRANSIENT):  # shown as OFFLINE, and pruned in time
            await self._hot.run(lambda c: deregister_worker(c, self._worker))
        await self._hot.close()

    # What the keeper says.

    def renewed(self, jobs: Sequence[LeasedJob]) -> None:
        """Count renewals."""
        _count(LEASES_RENEWED, jobs)

    def lost(self, leases: Sequence[Lease], why: str) -> None:
        """Pass on that leases are gone; of one with its outcome on the way the database decides."""
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

    def disowned(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Return those that are not ours; none while a claim is in flight that may bring them."""
        oldest = min(self._flights, default=time.monotonic())
        if time.monotonic() - oldest >= CLAIM_FLIGHT_S - 1:
            return ()
        return [lease for lease in leases if self._keeper.job(lease) is None]

    # Claims.

    async def _claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        begun = time.monotonic()
        self._flights.add(begun)
        try:
            jobs, sent_at = await self._hot.run(lambda c: self._claim_on(c, n, running=running))
        except BaseException:
            self._keeper.reconcile()
            raise
        finally:
            self._flights.discard(begun)
        self._keeper.hold(jobs, sent_at)
        _count(LEASES_ACQUIRED, jobs)
        return jobs

    async def _claim_on(
        self, connection: Connection, n: int, *, running: bool
    ) -> tuple[list[LeasedJob], float]:
        sent_at = time.monotonic()
        jobs = await self._claimer.claim(connection, self._worker, n, running=running)
        return jobs, sent_at

    def _hand_back(self, jobs: Sequence[LeasedJob]) -> None:
        """Nobody waits for these any more."""
        outcome = Released("the worker stopped while it claimed")
        settlements = [_decided(job, outcome) for job in jobs]
        _ = self._own(self._settle_all(settlements))

    async def _settle_all(self, settlements: Sequence[Settlement]) -> None:
        await asyncio.gather(*map(self.settle, settlements), return_exceptions=True)

    # Starts.

    async def _start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        answers, sent_at = await self._start_with_retries(leases)
        started = frozenset(a.lease for a in answers if a.state == "started")
        held = [job for lease in started if (job := self._keeper.job(lease)) is not None]
        self._keeper.hold(held, sent_at)
        for answer in answers:
            if answer.state == "expired":
                self._keeper.drop(answer.lease)
            elif answer.state == "lost":
                self._forget_lost(answer.lease, "it was lost before it was started")
        return frozenset(job.lease for job in held)

    async def _start_with_retries(self, leases: Sequence[Lease]) -> tuple[list[LeaseAnswer], float]:
        """A start is safe to repeat: a lease that runs already answers that it is started."""
        for number in range(1, _START_TRIES):
            try:
                return await self._start_once(leases)
            except TRANSIENT:
                await asyncio.sleep(backoff_s(number))
        return await self._start_once(leases)

    async def _start_once(self, leases: Sequence[Lease]) -> tuple[list[LeaseAnswer], float]:
        sent_at = time.monotonic()
        lease_s = self._settings.lease_s
        answers = await self._hot.run(
            lambda c: start_leases(c, worker=self._worker, leases=leases, lease_s=lease_s)
        )
        return answers, sent_at

    # Settles.

    async def _flush(self, batch: Sequence[Settlement]) -> frozenset[Lease]:
        answers = await self._hot.run(
            lambda c: settle_leases(c, worker=self._worker, settlements=batch)
        )
        return frozenset(a.lease for a in answers if a.state == "settled")

    def _substitute(self, settlement: Settlement, error: JobQueueError) -> Settlement:
        job = self._keeper.job(settlement.lease)
        assert job is not None, "a lease is held until its outcome has an answer"
        text = f"its outcome could not be stored: {error.__cause__ or error}"
        return _decided(job, Failed(safe_text(text, Limits().error_bytes)))

    def _ended(self, lease: Lease, *, settled: bool) -> None:
        if not settled:
            self._forget_lost(lease, "its outcome was refused")
        elif (job := self._keeper.drop(lease)) is not None:
            self._claimer.job_ended(job.queue)

    # News.

    def _lose(self, lease: Lease, why: str) -> None:
        if self._forget_lost(lease, why):
            self._publish(LeaseGone(lease))

    def _forget_lost(self, lease: Lease, why: str) -> bool:
        job = self._keeper.drop(lease)
        if job is None:
            return False
        LEASES_LOST.emit(LeaseLoss(lease, job.job_id, job.queue, why))
        return True

    def _publish(self, news: News) -> None:
        for callback in self._callbacks:
            callback(news)

    def _hinted(self, queues: frozenset[str]) -> None:
        """No names: hints may have been missed, so look."""
        if self._claimer.hint(queues) or not queues:
            self._hint.set()

    # Plumbing.

    @property
    def _keeper(self) -> Keeper:
        assert self._opened is not None, "open() comes first"
        return self._opened

    async def _owned(self, work: Coroutine[Any, Any, T], abandoned: Callable[[T], None]) -> T:
        """Await ``work``; a cancelled caller does not stop it, and its result goes elsewhere."""
        task = self._own(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: _pass_on(done, abandoned))
            raise

    def _own(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _pass_on(task: asyncio.Task[T], receiver: Callable[[T], None]) -> None:
    if not task.cancelled() and task.exception() is None:
        receiver(task.result())


def _decided(job: LeasedJob, outcome: Outcome) -> Settlement:
    charge = Charge(job.lease, job.max_retries, job.counters, job.policy)
    # Only a lost lease is a crash, and that is never decided here.
    return decide(charge, outcome, crash_limit=1, jitter=random.random())  # noqa: S311 - no secret


def _count(signal: Signal[LeaseCount], jobs: Sequence[LeasedJob]) -> None:
    for queue, count in Counter(job.queue for job in jobs).items():
        signal.emit(LeaseCount(queue, count))
