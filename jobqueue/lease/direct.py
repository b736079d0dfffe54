"""Leases straight from PostgreSQL: what a worker with database access uses.

At most three connections a process: the hot one for claims, starts and settles; the listener for
wake-ups; the keeper's. Claims and settles take turns on the hot one (see ``hot``).
"""

import contextlib
import random
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Charge, Completed, Released, Settlement, decide
from jobqueue.domain.worker import WorkerFacts
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.duties import CLAIM_FLIGHT_S
from jobqueue.lease.holder import Holder
from jobqueue.lease.hot import TRANSIENT, HotConnection, retried
from jobqueue.lease.keeper import Keeper
from jobqueue.lease.probes import ProbePlan
from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.settler import Ending
from jobqueue.lease.tally import tell_claimed, tell_done, tell_settled, tell_started
from jobqueue.store.leases import LeaseAnswer, complete_leases, settle_leases, start_leases
from jobqueue.store.pool import Connection
from jobqueue.store.wakeups import Listener
from jobqueue.store.workers import deregister_worker

__all__ = ["DirectLeases", "LeaseSettings"]

KEEPER = "jobqueue.lease.keeper_process"


class DirectLeases(Holder):
    """The ``Leases`` of one worker process on one database. Make it on the running event loop."""

    def __init__(
        self, dsn: str, settings: LeaseSettings, queues: Sequence[str], types: Sequence[str]
    ) -> None:
        """``queues`` are the names to serve, ``types`` those that have a handler here."""
        super().__init__()
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
        self._listener: Listener | None = None
        self._worker = 0
        self._facts: WorkerFacts | None = None
        self._flights: set[float] = set()

    async def open(self, facts: WorkerFacts) -> None:
        """Start the keeper, which registers the worker; then listen for wake-ups.

        Raises Unavailable when the worker is not registered within 30 s.
        """
        self._facts = facts
        keeper = Keeper(KEEPER, self._dsn, self._settings, facts, self)
        self._worker = await self._keep(keeper, self._settings.lease_s)
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
        return await self._errands.run(self._claim(n, running=running), self._hand_back_claimed)

    def stop_claiming(self) -> None:
        """Nothing to do: no job is taken ahead of a claim."""

    async def close(self) -> None:
        """Record what is on its way, end the keeper, deregister, close the connections."""
        if self._kept is None:
            return
        await self._finish()
        if self._listener is not None:
            await self._listener.stop()
        with contextlib.suppress(*TRANSIENT):  # shown as OFFLINE, and pruned in time
            await self._hot.run(lambda c: deregister_worker(c, self._worker, self._facts))
        await self._hot.close()

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
        tell_claimed(jobs)
        return jobs

    async def _claim_on(
        self, connection: Connection, n: int, *, running: bool
    ) -> tuple[list[LeasedJob], float]:
        sent_at = time.monotonic()
        jobs = await self._claimer.claim(connection, self._worker, n, running=running)
        return jobs, sent_at

    def _hand_back_claimed(self, jobs: Sequence[LeasedJob]) -> None:
        self._hand_back(jobs, Released("the worker stopped while it claimed"))

    # Starts.

    async def _start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        # Safe to repeat: a lease that runs already answers that it is started.
        answers, sent_at = await retried(lambda: self._start_once(leases))
        # What an earlier try did is heard of here for the first time, as in ``_flush``.
        tell_started(answers, unclear=True)
        started = frozenset(a.lease for a in answers if a.state == "started")
        held = [job for lease in started if (job := self._keeper.job(lease)) is not None]
        self._keeper.hold(held, sent_at)
        for answer in answers:
            if answer.state == "expired":
                self._keeper.drop(answer.lease)
            elif answer.state == "lost":
                self._forget_lost(answer.lease, "it was lost before it was started")
        return frozenset(job.lease for job in held)

    async def _start_once(self, leases: Sequence[Lease]) -> tuple[list[LeaseAnswer], float]:
        sent_at = time.monotonic()
        lease_s = self._settings.lease_s
        answers = await self._hot.run(
            lambda c: start_leases(c, worker=self._worker, leases=leases, lease_s=lease_s)
        )
        return answers, sent_at

    # Settles.

    def _ending(self, batch: Sequence[Ending]) -> None:
        # Claims take their turn on the same connection behind it.
        self._on_ending([ending.job for ending in batch])

    async def _flush(self, batch: Sequence[Ending]) -> AbstractSet[Lease]:
        done = [e for e in batch if isinstance(e.outcome, Completed)]
        settled = await self._complete(done) if done else frozenset[Lease]()
        if len(done) == len(batch):
            return settled
        others = [e for e in batch if not isinstance(e.outcome, Completed)]
        return settled | await self._settle(others)

    async def _complete(self, batch: Sequence[Ending]) -> AbstractSet[Lease]:
        """Write the common end, with nothing of what only the others need."""
        done = {e.job.lease: e.outcome for e in batch if isinstance(e.outcome, Completed)}
        settled = await self._hot.run(lambda c: complete_leases(c, worker=self._worker, done=done))
        # What an earlier try did is heard of here for the first time, as below.
        tell_done([e.job.queue for e in batch if e.job.lease in settled])
        return settled

    async def _settle(self, batch: Sequence[Ending]) -> AbstractSet[Lease]:
        settlements = [_decided(ending) for ending in batch]
        answers = await self._hot.run(
            lambda c: settle_leases(c, worker=self._worker, settlements=settlements)
        )
        asked = {e.lease: (e.job.queue, s) for e, s in zip(batch, settlements, strict=True)}
        tell_settled(answers, asked, unclear=True)
        return frozenset(a.lease for a in answers if a.state == "settled")

    def _jobs_ended(self, queues: AbstractSet[str]) -> None:
        for queue in queues:
            self._claimer.job_ended(queue)

    def _hinted(self, queues: frozenset[str]) -> None:
        if self._claimer.hint(queues):
            self._hint.set()


def _decided(ending: Ending) -> Settlement:
    job = ending.job
    charge = Charge(job.lease, job.max_retries, job.counters, job.policy)
    # Only a lost lease is a crash, and that is never decided here.
    jitter = random.random()  # noqa: S311 - spreads retries, guards nothing
    return decide(charge, ending.outcome, crash_limit=1, jitter=jitter)
