"""Leases of remote workers, as a server handles them for whoever calls.

The desk remembers nothing that matters: leases live in the database and are matched by worker
number and token, so any server answers any call. What it keeps about open streams (``outlets``)
is how many jobs were sent and not yet heard of, and that is checked against the table.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Literal

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.job import Progress
from jobqueue.domain.lease import Counters, Lease, LeasedJob, Renewal
from jobqueue.domain.outcome import (
    Charge,
    Fate,
    Outcome,
    Released,
    Settlement,
    Unhandled,
    decide,
)
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.errors import NotFound
from jobqueue.lease.errands import Errands
from jobqueue.lease.hot import HotConnection, retried
from jobqueue.lease.outlet import Outlet
from jobqueue.lease.tally import Asked, tell_settled, tell_started
from jobqueue.store import workers
from jobqueue.store.faults import retrying, retrying_told, translated
from jobqueue.store.leases import (
    HeldLease,
    LeaseAnswer,
    list_cancelled_leases,
    list_leases,
    lock_assigned_leases,
    look_up_leases,
    note_progress,
    renew_leases,
    settle_leases,
    start_leases,
)
from jobqueue.store.pool import Connection, Pool, has_free, transaction

STREAM_S = 2_100.0
"""Longer than a connection takes calls, so that the next stream may go to a server added since."""

_CLAIMS_SHARE = 2
"""At most every second connection of the pool claims: reports must not wait."""

_TOO_LARGE = Unhandled("its payload is too large to be sent to a remote worker")

_HANDED_BACK = Released("it was handed back by its remote worker")

Verdict = Literal["settled", "lost", "not_started"]


@dataclass(frozen=True, slots=True)
class Beat:
    """What a worker says of itself; ``clock_s`` is its own time, seconds since 1970."""

    draining: bool = False
    clock_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a heartbeat answers."""

    command: WorkerCommand
    renewals: Sequence[Renewal]
    cancelled: Sequence[Lease]


@dataclass(frozen=True, slots=True)
class _Taken:
    """What was taken back, and what was answered."""

    asked: Asked
    answers: Sequence[LeaseAnswer]


class Desk:
    """Claims, starts, renews and settles for remote workers.

    Workers are named by the number that ``register`` gave. Methods raise NotFound where a worker
    must register again, and Unavailable and its like when the database cannot be reached.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        reserve: HotConnection,
        lease_s: float,
        claimers: int,
        announce: Callable[[Iterable[str]], None],
    ) -> None:
        """``claimers`` is the size of the pool; ``announce`` gets queues with jobs handed back.

        Heartbeats go through ``reserve`` while callers hold all of the pool: they may have to wait
        there for a row, leases do not.
        """
        self._pool = pool
        self._reserve = reserve
        self._lease_s = lease_s
        self._announce = announce
        self._turnstile = asyncio.Semaphore(max(claimers // _CLAIMS_SHARE, 1))
        self._errands = Errands()
        self._outlets: dict[int, Outlet] = {}
        self._on_stream: Callable[[], None] = _unheard

    @property
    def streaming(self) -> bool:
        """Whether any worker has a stream of jobs here, and hints are of use."""
        return bool(self._outlets)

    def on_stream(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever a stream begins."""
        self._on_stream = callback

    async def register(self, facts: WorkerFacts) -> int:
        """Register a worker, or again; return its number."""
        return await retrying(lambda: workers.register_worker(self._pool, facts))

    async def stream(self, worker: int, held: Sequence[Lease]) -> AsyncGenerator[LeasedJob, None]:
        """Yield jobs for ``worker`` as they come and as it has room.

        Ends when another one begins, and after ``STREAM_S`` or little more.

        What was sent to it before, was never started and is not in ``held`` is handed back, now
        and, for this stream, at its end. Raises NotFound.
        """
        outlet = await self._open(worker, held)
        before = self._outlets.get(worker)
        if before is not None:
            before.end()
        self._outlets[worker] = outlet
        self._on_stream()
        life_s = STREAM_S * random.uniform(1.0, 1.1)  # noqa: S311 - spreads load only
        over = asyncio.get_running_loop().call_later(life_s, outlet.end)
        try:
            async with aclosing(outlet.jobs()) as jobs:
                async for job in jobs:
                    yield job
        finally:
            over.cancel()
            if self._outlets.get(worker) is outlet:
                del self._outlets[worker]

    async def start(self, worker: int, leases: Sequence[Lease]) -> list[LeaseAnswer]:
        """Start jobs that were sent; answer each: started, expired or lost."""
        answers, unclear = await retrying_told(
            lambda: start_leases(self._pool, worker=worker, leases=leases, lease_s=self._lease_s)
        )
        tell_started(answers, unclear=unclear)
        self._gone(worker, [a.lease for a in answers if a.state != "started"])
        return answers

    async def heartbeat(
        self, worker: int, beat: Beat, leases: Sequence[Lease], watched: Sequence[Lease]
    ) -> Pulse:
        """Beat, renew ``leases``, and tell which of all of them are to end. Raises NotFound."""

        async def attempt() -> Pulse | None:
            work = partial(self._beat, worker=worker, beat=beat, leases=leases, watched=watched)
            if not has_free(self._pool):
                return await self._reserve.run(work)
            with translated():
                async with self._pool.acquire() as connection:
                    return await work(connection)

        pulse = await retried(attempt)
        if pulse is None:
            raise NotFound("worker", str(worker), at="session")
        self._gone(worker, [r.lease for r in pulse.renewals if r.state == "lost"])
        return pulse

    async def settle(self, worker: int, outcomes: Mapping[Lease, Outcome]) -> dict[Lease, Verdict]:
        """Record outcomes; answer each. Repeated, it answers the same."""
        held = {h.lease: h for h in await self._look_up(worker, list(outcomes))}
        unfit = {k for k, h in held.items() if not h.running and not _fits_unstarted(outcomes[k])}
        settlements = [
            _decided(held.get(lease), lease, outcome)
            for lease, outcome in outcomes.items()
            if lease not in unfit
        ]
        verdicts: dict[Lease, Verdict] = dict.fromkeys(unfit, "not_started")
        if settlements:
            answers, unclear = await retrying_told(
                lambda: settle_leases(self._pool, worker=worker, settlements=settlements)
            )
            asked = {s.lease: (held[s.lease].queue, s) for s in settlements if s.lease in held}
            tell_settled(answers, asked, unclear=unclear)
            verdicts |= {a.lease: "settled" if a.state == "settled" else "lost" for a in answers}
        self._gone(worker, [lease for lease in outcomes if lease not in unfit])
        self._announce({held[s.lease].queue for s in settlements if _is_release(s, held)})
        return verdicts

    async def note_progress(self, worker: int, progress: Mapping[Lease, Progress]) -> list[Lease]:
        """Keep how far running jobs are; return those that ``worker`` does not run."""
        running = await retrying(
            lambda: note_progress(self._pool, worker=worker, progress=progress)
        )
        return [lease for lease in progress if lease not in frozenset(running)]

    async def release(
        self, worker: int, leases: Sequence[Lease], *, strays_but: Sequence[Lease] | None = None
    ) -> int:
        """Hand jobs back uncharged; return how many were held.

        With ``strays_but`` also whatever is ASSIGNED to the worker and not among these.
        """
        handed_back = 0
        if leases:
            verdicts = await self.settle(worker, dict.fromkeys(leases, _HANDED_BACK))
            handed_back = sum(verdict == "settled" for verdict in verdicts.values())
        if strays_but is not None:
            strays = _strays(await self._listed(worker), strays_but)
            handed_back += len(await self._take_back(worker, list(strays)))
        return handed_back

    async def deregister(self, worker: int) -> None:
        """Hand back what was not started, and forget the worker."""
        await self.release(worker, [], strays_but=())
        await retrying(lambda: workers.deregister_worker(self._pool, worker))

    def hinted(self, queues: frozenset[str]) -> None:
        """Take note that these queues may have jobs; no names: any may."""
        for outlet in self._outlets.values():
            outlet.hint(queues)

    async def close(self) -> None:
        """Wait until all that was handed back is recorded. No call comes any more."""
        await self._errands.finish()
        await self._reserve.close()

    async def _open(self, worker: int, held: Sequence[Lease]) -> Outlet:
        serving = await retrying(lambda: workers.open_stream(self._pool, worker))
        if serving is None:
            raise NotFound("worker", str(worker), at="session")
        listed = await self._listed(worker)
        taken_back = await self._take_back(worker, list(_strays(listed, held)))
        rest = {h.lease for h in listed}.difference(taken_back)
        return Outlet(
            self._pool,
            worker,
            serving,
            rest,
            lease_s=self._lease_s,
            turnstile=self._turnstile,
            errands=self._errands,
            release=lambda leases: self._errands.start(self._take_back(worker, leases)),
            refuse=lambda leases: self._errands.start(
                self.settle(worker, dict.fromkeys(leases, _TOO_LARGE))
            ),
        )

    async def _beat(
        self,
        db: Connection,
        *,
        worker: int,
        beat: Beat,
        leases: Sequence[Lease],
        watched: Sequence[Lease],
    ) -> Pulse | None:
        command = await workers.beat_worker(
            db, worker, draining=beat.draining, clock_s=beat.clock_s
        )
        if command is None:
            return None
        renewals: Sequence[Renewal] = ()
        if leases:
            renewals = await renew_leases(db, worker=worker, leases=leases, lease_s=self._lease_s)
        cancelled = [r.lease for r in renewals if r.cancel_requested]
        if watched:
            cancelled += await list_cancelled_leases(db, watched)
        return Pulse(command, renewals, cancelled)

    async def _look_up(self, worker: int, leases: Sequence[Lease]) -> list[HeldLease]:
        return await retrying(lambda: look_up_leases(self._pool, worker=worker, leases=leases))

    async def _listed(self, worker: int) -> list[HeldLease]:
        return await retrying(lambda: list_leases(self._pool, worker=worker, older_than_s=0.0))

    async def _take_back(self, worker: int, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Hand back, uncharged, those that the worker has not started; return them.

        What was sent may be started at this moment, by a call that another server answers.
        """
        if not leases:
            return ()
        taken, unclear = await retrying_told(lambda: self._take_unstarted(worker, leases))
        tell_settled(taken.answers, taken.asked, unclear=unclear)
        self._gone(worker, list(taken.asked))
        self._announce({queue for queue, _ in taken.asked.values()})
        return list(taken.asked)

    async def _take_unstarted(self, worker: int, leases: Sequence[Lease]) -> _Taken:
        async with self._pool.acquire() as connection, transaction(connection):
            held = await lock_assigned_leases(connection, worker=worker, leases=leases)
            asked = {h.lease: (h.queue, _decided(h, h.lease, _HANDED_BACK)) for h in held}
            settlements = [settlement for _, settlement in asked.values()]
            return _Taken(
                asked, await settle_leases(connection, worker=worker, settlements=settlements)
            )

    def _gone(self, worker: int, leases: Sequence[Lease]) -> None:
        """These no longer take room of the worker."""
        if leases and (outlet := self._outlets.get(worker)):
            outlet.gone(leases)


def _unheard() -> None:
    """Nobody needs to know."""


def _strays(listed: Sequence[HeldLease], held: Sequence[Lease]) -> set[Lease]:
    """Return what the worker was sent, never started, and does not have."""
    return {h.lease for h in listed if not h.running}.difference(held)


def _fits_unstarted(outcome: Outcome) -> bool:
    return isinstance(outcome, Released | Unhandled)


def _decided(held: HeldLease | None, lease: Lease, outcome: Outcome) -> Settlement:
    """Decide as every worker's outcome is decided.

    A lease that is not held is settled in vain, which tells its loss from an earlier success.
    """
    charge = held.charge if held else Charge(lease, 0, Counters(), RetryPolicy())
    jitter = random.random()  # noqa: S311 - spreads retries, guards nothing
    # Only a lost lease is a crash, and that is never reported.
    return decide(charge, outcome, crash_limit=1, jitter=jitter)


def _is_release(settlement: Settlement, held: Mapping[Lease, HeldLease]) -> bool:
    return settlement.fate is Fate.READY and settlement.lease in held
