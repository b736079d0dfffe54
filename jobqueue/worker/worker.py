"""A worker from its start to its end (R-4.7, R-4.8).

open ─► serve ─► [drain ─►] stop claiming, hand back what has not started
     ─► let run within the grace ─► end the rest and hand it back ─► deregister
"""

import asyncio
from dataclasses import dataclass, field

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.load import Load
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.errors import JobQueueError, PermissionDenied, Unauthenticated
from jobqueue.lease.interface import (
    CancelRequested,
    CommandReceived,
    Forgotten,
    LeaseGone,
    Leases,
    News,
)
from jobqueue.runtime.service import Service
from jobqueue.runtime.shutdown import ShutdownSignals
from jobqueue.worker.around import Around
from jobqueue.worker.attempt import Stop
from jobqueue.worker.children import CHILD
from jobqueue.worker.claiming import Claiming, Hints, Room
from jobqueue.worker.executor import DEATH_LIMIT_S, Executor, RunRules
from jobqueue.worker.registry import Registry
from jobqueue.worker.runners import Runners
from jobqueue.worker.signals import PHASE_ENTERED, PhaseEntered
from jobqueue.worker.waiting import any_set, any_set_within

EXIT_DONE, EXIT_HURRIED, EXIT_UNFIT = 0, 1, 3
"""0: nothing left behind. 1: ended in a hurry, not cleanly, for another process of the same id, or
because its registration was lost.
3: a handler could not be ended."""

_SETTLE_LIMIT_S = 10.0
_HURRY_LIMIT_S = 3.0
_CLOSE_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works. ``shutdown_grace_s`` is what running jobs get when it is told to end."""

    room: Room = field(default_factory=Room)
    rules: RunRules = field(default_factory=RunRules)
    shutdown_grace_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Followed:
    """Who follows the attempts of a worker, here and in its handler processes."""

    around: Around | None = None
    child: str = CHILD


UNFOLLOWED = Followed()


class Worker:
    """Claims, runs and settles until told to end. Made and run once, on the loop that runs it."""

    def __init__(
        self,
        leases: Leases,
        registry: Registry,
        facts: WorkerFacts,
        options: WorkerOptions,
        followed: Followed = UNFOLLOWED,
    ) -> None:
        self._leases = leases
        self._facts = facts
        self._options = options
        self._unfit = asyncio.Event()
        room, rules = options.room, options.rules
        self._runners = Runners(registry, rules.limits, room.concurrency, followed.child)
        self._executor = Executor(
            leases, registry, self._runners, rules, self._become_unfit, followed.around
        )
        self._claiming = Claiming(leases, self._executor, registry, room)
        self._hints = Hints(leases, self._claiming)
        self._asked = ShutdownSignals()
        self._gave_up = False

    @property
    def worker_id(self) -> str:
        """Its name."""
        return self._facts.worker_id

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return self._executor.running

    @property
    def load(self) -> Load:
        """How many these are, and how old the oldest is."""
        return self._executor.load

    async def run(self, asked: ShutdownSignals) -> int:
        """Work until ``asked`` to end; return the exit code, one of the three above.

        A database that cannot be reached is waited for, at the start too. Raises ChildFailed when
        handler processes cannot be started; Unauthenticated or PermissionDenied when a server does
        not take this worker.
        """
        self._asked = asked
        self._leases.on_news(self._hear)
        try:
            await self._runners.open()
            if await self._open():
                await self._serve()
            return self._exit_code(clean=await self._shut_down())
        finally:
            # Done already, unless an error or a cancellation ended us.
            await self._hints.stop(0.0)
            await self._claiming.stop(0.0)
            self._executor.close()
            await self._runners.close()

    async def _open(self) -> bool:
        """Register; False when the worker was told to end before that worked."""
        opening = Opening(self._leases, self._facts)
        await opening.start()
        await any_set(opening.done, self._asked.shutdown)
        await opening.stop(_HURRY_LIMIT_S)
        if opening.refusal is not None:
            await self._close_leases()
            raise opening.refusal
        return opening.done.is_set()

    async def _serve(self) -> None:
        """Claim and run until something ends this."""
        await self._claiming.start()
        await self._hints.start()
        self._tell("ready")
        ends = (self._asked.shutdown, self._unfit)
        await any_set(self._asked.drain, *ends)
        if self._asked.drain.is_set() and not any(end.is_set() for end in ends):
            self._tell("draining")
            self._claiming.drain()
            await any_set(*ends)

    async def _shut_down(self) -> bool:
        """Give everything back; return whether that was complete."""
        dropped = self._executor.dropped
        self._claiming.close()
        self._tell("stopping")
        cuts = (self._unfit, self._asked.hurry)
        await self._idle_within(self._options.shutdown_grace_s, *cuts)
        clean = await self._end_running()
        await self._hints.stop(0.0)
        await self._claiming.stop(_HURRY_LIMIT_S)
        # The last turn may have brought jobs that are being handed back now.
        clean = await self._idle_within(_HURRY_LIMIT_S) and clean
        clean = await self._close_leases() and clean
        return clean and self._executor.dropped == dropped

    async def _end_running(self) -> bool:
        """Stop what runs and hand it back, once it is dead."""
        limit_s = self._options.rules.kill_grace_s + DEATH_LIMIT_S + _SETTLE_LIMIT_S
        self._claiming.release_unbegun()
        self._executor.release_all()
        if await self._idle_within(limit_s, self._asked.hurry):
            return True
        self._executor.release_all(hurry=True)
        return await self._idle_within(_HURRY_LIMIT_S)

    async def _idle_within(self, seconds: float, *interrupts: asyncio.Event) -> bool:
        """Wait until no job is held, or an interrupt; return whether none is held."""
        await any_set_within(seconds, self._claiming.idle, *interrupts)
        return self._claiming.idle.is_set()

    async def _close_leases(self) -> bool:
        try:
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await self._leases.close()
        except (TimeoutError, JobQueueError) as error:
            self._tell("not deregistered", str(error))
            return False
        return True

    def _exit_code(self, *, clean: bool) -> int:
        if self._unfit.is_set():
            code = EXIT_UNFIT
        else:
            fine = clean and not self._asked.hurry.is_set() and not self._gave_up
            code = EXIT_DONE if fine else EXIT_HURRIED
        self._tell("stopped", f"exit code {code}")
        return code

    def _hear(self, news: News) -> None:
        match news:
            case LeaseGone(lease):
                self._claiming.forget(lease)
                self._executor.stop(lease, Stop.LOST)
            case CancelRequested(lease):
                self._claiming.cancel(lease)
                self._executor.stop(lease, Stop.CANCELLED)
            case CommandReceived(WorkerCommand.DRAIN):
                self._asked.drain.set()
            case CommandReceived(WorkerCommand.SHUTDOWN):
                self._asked.shutdown.set()
            case CommandReceived(WorkerCommand.YIELD):
                # Of two processes under one id, each would hand back what the other runs.
                self._give_up("replaced", "another process has registered under this worker id")
            case Forgotten():
                self._give_up("forgotten", "its registration was lost, and with it what it held")
            case CommandReceived():
                pass

    def _give_up(self, phase: str, why: str) -> None:
        """End: what this process does from now on is nobody's."""
        self._gave_up = True
        self._tell(phase, why)
        self._asked.shutdown.set()

    def _become_unfit(self, stuck: LeasedJob) -> None:
        """Take no more jobs: this process must end so that its stuck handler ends with it."""
        self._claiming.abandon(stuck)
        self._claiming.close()
        self._tell("unfit", "a handler that cannot be killed did not end")
        self._unfit.set()

    def _tell(self, phase: str, detail: str = "") -> None:
        PHASE_ENTERED.emit(PhaseEntered(phase, detail))


class Opening(Service):
    """Registers the worker, trying until it works or somebody says that it may not."""

    def __init__(self, leases: Leases, facts: WorkerFacts) -> None:
        super().__init__("open", interval_s=3600.0)
        self.done = asyncio.Event()
        self.refusal: JobQueueError | None = None
        self._leases = leases
        self._facts = facts

    async def turn(self) -> float | None:
        """Try once; after success there is nothing left to do."""
        if not self.done.is_set():
            try:
                await self._leases.open(self._facts)
            except (Unauthenticated, PermissionDenied) as error:
                self.refusal = error
            self.done.set()
        return None
