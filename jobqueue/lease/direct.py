"""Leases straight from PostgreSQL: what a worker with database access uses.

Three connections a process: one for claims and starts, on which wake-ups arrive too; one for
settles; the keeper's. So the database claims while it settles.
"""

import contextlib
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Charge, Completed, Released, Settlement, decide
from jobqueue.domain.worker import WorkerFacts
from jobqueue.errors import Unavailable
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.duties import CLAIM_FLIGHT_S
from jobqueue.lease.holder import Holder
from jobqueue.lease.hot import TRANSIENT, Connect, HotConnection, connecting, retried
from jobqueue.lease.keeper import Keeper
from jobqueue.lease.probes import ProbePlan
from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.settler import Ending, Written
from jobqueue.lease.tally import tell_claimed, tell_done, tell_settled, tell_started
from jobqueue.store.leases import LeaseAnswer, complete_leases, settle_leases, start_leases
from jobqueue.store.pool import Connection
from jobqueue.store.wakeups import connect_listening
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
        within_s = settings.statement_timeout_s
        self._claims = HotConnection(self._listening(), timeout_s=within_s)
        self._settles = HotConnection(connecting(dsn, settings, "jq-settler"), timeout_s=within_s)
        self._claimer = Claimer(queues, ProbePlan(frozenset(types)), settings.lease_s)
        self._worker = 0
        self._facts: WorkerFacts | None = None
        self._flights: set[float] = set()

    async def open(self, facts: WorkerFacts) -> None:
        """Start the keeper, which registers the worker. Hints arrive from the first claim on.

        Raises Unavailable when the worker is not registered within 30 s.
        """
        self._facts = facts
        keeper = Keeper(KEEPER, self._dsn, self._settings, facts, self)
        self._worker = await self._keep(keeper, self._settings.lease_s)

    async def claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        """Take up to ``n`` jobs. Those of a caller that is cancelled meanwhile are handed back."""
        if n <= 0:
            return []
        self._hint.clear()
        return await self._errands.run(self._claim(n, running=running), self._hand_back_claimed)

    async def close(self) -> None:
        """Record what is on its way, end the keeper, deregister, close the connections."""
        if self._kept is None:
            return
        await self._finish()
        number = self._keeper.number
        with contextlib.suppress(*TRANSIENT):  # shown as OFFLINE, and pruned in time
            await self._settles.run(lambda c: deregister_worker(c, number, self._facts))
        await self._settles.close()
        await self._claims.close()

    def disowned(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Return those that are not ours; none while a claim is in flight that may bring them."""
        oldest = min(self._flights, default=time.monotonic())
        if time.monotonic() - oldest >= CLAIM_FLIGHT_S - 1:
            return ()
        return [lease for lease in leases if self._keeper.job(lease) is None]

    # Claims.

    async def _require_settles(self) -> None:
        """Raise Unavailable while outcomes cannot be written: what is taken would run in vain."""
        if trouble := self._settler.trouble:
            raise Unavailable(f"outcomes cannot be written: {trouble}") from trouble
        await self._settles.prove()

    async def _claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        await self._require_settles()
        sent: list[float] = []
        try:
            jobs = await self._claims.run(lambda c: self._claim_on(c, n, sent, running=running))
        except BaseException:
            self._keeper.reconcile()
            raise
        finally:
            self._flights.difference_update(sent)
        self._keeper.hold(jobs, sent[0])
        tell_claimed(jobs)
        return jobs

    async def _claim_on(
        self, connection: Connection, n: int, sent: list[float], *, running: bool
    ) -> list[LeasedJob]:
        """Claim, unless that is over or of no use by now; ``sent`` gets when it was sent."""
        sent.append(time.monotonic())
        if not self._claiming or self._settler.trouble:
            return []
        self._flights.update(sent)
        return await self._claimer.claim(connection, self._worker, n, running=running)

    def _hand_back_claimed(self, jobs: Sequence[LeasedJob]) -> None:
        self._hand_back(jobs, Released("the worker stopped while it claimed"))

    # Starts.

    async def _start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        await self._require_settles()
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
                self._forget_unstarted(answer.lease)
        return frozenset(job.lease for job in held)

    async def _start_once(self, leases: Sequence[Lease]) -> tuple[list[LeaseAnswer], float]:
        sent_at = time.monotonic()
        lease_s = self._settings.lease_s
        answers = await self._claims.run(
            lambda c: start_leases(c, worker=self._worker, leases=leases, lease_s=lease_s)
        )
        return answers, sent_at

    # Settles.

    async def _flush(self, batch: Sequence[Ending]) -> AsyncIterator[Written]:
        """Write the common end with nothing of what only the others need, then these."""
        done = {e.lease: e.outcome for e in batch if isinstance(e.outcome, Completed)}
        if len(done) == len(batch):
            yield batch, await self._complete(batch, done)
            return
        if done:
            completed = [e for e in batch if e.lease in done]
            yield completed, await self._complete(completed, done)
        others = [e for e in batch if e.lease not in done]
        yield others, await self._settle(others)

    async def _complete(
        self, batch: Sequence[Ending], done: Mapping[Lease, Completed]
    ) -> AbstractSet[Lease]:
        worker = self._worker
        completed = await self._settles.run(lambda c: complete_leases(c, worker=worker, done=done))
        tell_done([e.job.queue for e in batch if e.lease in completed])
        return completed

    async def _settle(self, batch: Sequence[Ending]) -> AbstractSet[Lease]:
        worker, settlements = self._worker, [_decided(ending) for ending in batch]
        answers = await self._settles.run(
            lambda c: settle_leases(c, worker=worker, settlements=settlements)
        )
        asked = {e.lease: (e.job.queue, s) for e, s in zip(batch, settlements, strict=True)}
        tell_settled(answers, asked, unclear=True)
        return {a.lease for a in answers if a.state == "settled"}

    def _jobs_ended(self, queues: AbstractSet[str]) -> None:
        for queue in queues:
            self._claimer.job_ended(queue)

    # Hints.

    def _listening(self) -> Connect:
        """Return what opens the connection of claims; behind PgBouncer nobody listens."""
        if self._settings.pgbouncer:
            return connecting(self._dsn, self._settings, "jq-worker")
        return partial(
            connect_listening,
            self._dsn,
            self._hinted,
            self._hint.set,  # a claim opens the next one, whatever there is to claim
            connect_timeout_s=self._settings.connect_timeout_s,
            application_name="jq-worker",
        )

    def _hinted(self, queues: frozenset[str]) -> None:
        if self._claimer.hint(queues):
            self._hint.set()


def _decided(ending: Ending) -> Settlement:
    job = ending.job
    charge = Charge(job.lease, job.max_retries, job.counters, job.policy)
    # Only a lost lease is a crash, and that is never decided here.
    jitter = random.random()  # noqa: S311 - spreads retries, guards nothing
    return decide(charge, ending.outcome, crash_limit=1, jitter=jitter)
