"""One job from claim to settlement.

``execute`` is the table of contents: resolve → start → run, bounded by the timeout → outcome →
decide → settle. Each step is one short function.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.limits import Limits
from jobqueue.domain.load import IDLE, Load
from jobqueue.domain.outcome import Cancelled, Completed, Failed, Outcome, Released, Unhandled
from jobqueue.domain.state import Reason
from jobqueue.errors import JobQueueError
from jobqueue.lease.interface import Answered, Leases
from jobqueue.runtime.log import begin_context, end_context
from jobqueue.runtime.tasks import own_task
from jobqueue.worker.around import Around
from jobqueue.worker.attempt import Attempt, Stop
from jobqueue.worker.endings import describe, outcome_of_error
from jobqueue.worker.registry import Handler, Registry
from jobqueue.worker.runners import Runners
from jobqueue.worker.signals import (
    ATTEMPT_BEGUN,
    ATTEMPT_BROKE,
    ATTEMPT_COMPLETED,
    ATTEMPT_FAILED,
    ATTEMPTS_TIMED,
    HANDLER_STUCK,
    OUTCOME_DROPPED,
    AttemptBegun,
    AttemptBroke,
    AttemptEnded,
    HandlerStuck,
    OutcomeDropped,
)

DEATH_LIMIT_S = 2.0
"""After the kill grace, what was killed must be dead within this; else the worker is unfit.

Time in which the worker itself stood still hardly counts."""


@dataclass(frozen=True, slots=True)
class RunRules:
    """Bounds of every attempt. ``default_timeout_s`` None: none unless the job or handler says."""

    default_timeout_s: float | None = None
    kill_grace_s: float = 5.0
    limits: Limits = field(default_factory=Limits)


Freed = Callable[[Sequence[LeasedJob]], None]
"""Hears that jobs take no slot any more: their settlements were answered, or there are none."""


class Executor:
    """Runs claimed jobs and settles them.

    ``on_unfit`` hears of a job whose handler cannot be ended: ``execute`` does not return from it.
    """

    def __init__(
        self,
        leases: Leases,
        registry: Registry,
        runners: Runners,
        rules: RunRules,
        on_unfit: Callable[[LeasedJob], None],
        around: Around | None = None,
    ) -> None:
        self._around = around
        self._leases = leases
        self._registry = registry
        self._runners = runners
        self._rules = rules
        self.kill_grace_s = rules.kill_grace_s
        self._on_unfit = on_unfit
        self._freed: Freed = _unheard
        self._answered: Answered = self._hear  # one object, by which the jobs of a batch are told
        self._attempts: dict[Lease, Attempt] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._stuck: set[asyncio.Task[None]] = set()
        self._closed = False
        self._dropped = 0
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)

    @property
    def running(self) -> int:
        """How many attempts are under way."""
        return len(self._attempts)

    @property
    def dropped(self) -> int:
        """How many outcomes were not recorded so far."""
        return self._dropped

    @property
    def load(self) -> Load:
        """What that amounts to."""
        oldest = next(iter(self._attempts.values()), None)  # they are kept as they began
        return IDLE if oldest is None else Load(len(self._attempts), oldest.begun_at)

    def on_freed(self, callback: Freed) -> None:
        """Call ``callback``, and no other, with the jobs that end from now on."""
        self._freed = callback

    async def execute(self, job: LeasedJob, task: asyncio.Task[None] | None = None) -> None:
        """Run a RUNNING job and hand its outcome on.

        Returns when the handler is over. ``task`` is the one in which this is called, where the
        caller knows it.
        """
        handler = self._registry.resolve(job.queue, job.type)
        if handler is None:
            self.settle(job, Unhandled(_no_handler(job)))
            return
        limit_s = job.timeout_s or handler.timeout_s or self._rules.default_timeout_s
        attempt = Attempt(job, task or own_task(), limit_s, self)
        context = begin_context({"job_id": job.job_id, "queue": job.queue})
        try:
            if self._around is None:
                await self._attempt(attempt, handler)
            else:
                with self._around(job) as attempt.trail:
                    await self._attempt(attempt, handler)
        finally:
            end_context(context)

    def settle(self, job: LeasedJob, outcome: Outcome) -> None:
        """Have the end of a lease written; an outcome that cannot be is dropped."""
        self._leases.settle(job, outcome, self._answered)

    def stop(self, lease: Lease, reason: Stop) -> None:
        """Ask the handler of this lease to end; nothing happens when none runs."""
        if attempt := self._attempts.get(lease):
            attempt.stop(reason)

    def release_all(self, *, hurry: bool = False) -> None:
        """Ask every running handler to end, its job to be handed back; ``hurry``: kill at once."""
        for attempt in self._attempts.values():
            attempt.stop(Stop.RELEASED)
            if hurry:
                attempt.hurry()

    def close(self) -> None:
        """Nothing more is settled: the worker is over, and attempts that still run die with it."""
        self._closed = True

    def begun(self, attempt: Attempt) -> None:
        """Have the lease renewed for no longer than the attempt may take."""
        if attempt.timeout_s is not None:
            limit_s = attempt.timeout_s + self._rules.kill_grace_s + DEATH_LIMIT_S
            self._leases.set_deadline(attempt.job.lease, limit_s)

    def stopped(self, attempt: Attempt) -> None:
        """Cancel the handler, and see to it that what it ran is dead in time."""
        attempt.task.cancel()
        ending = asyncio.create_task(self._see_to_its_end(attempt))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _attempt(self, attempt: Attempt, handler: Handler) -> None:
        """Take the handler to its end, and hand its outcome on."""
        job = attempt.job
        begun = attempt.begun_at = time.monotonic()
        self._attempts[job.lease] = attempt
        if ATTEMPT_BEGUN.heard:
            ATTEMPT_BEGUN.emit(AttemptBegun(job))
        outcome: Outcome | None = None
        try:
            outcome = await self._handled(handler, attempt)
            if attempt.reason is not None:
                outcome = _stopped_outcome(attempt)
        finally:
            self._over(attempt, outcome)
        self._tell_ended(attempt, outcome, time.monotonic() - begun)
        if outcome is None:
            self._freed([job])
            return
        self.settle(job, outcome)

    def _over(self, attempt: Attempt, outcome: Outcome | None) -> None:
        attempt.close()
        if attempt.given_up:
            return
        del self._attempts[attempt.job.lease]
        if attempt.trail is not None:
            attempt.trail.ended(outcome)

    def _tell_ended(self, attempt: Attempt, outcome: Outcome | None, seconds: float) -> None:
        if attempt.given_up:
            return
        if not self._seconds:
            asyncio.get_running_loop().call_soon(self._tell_seconds, context=Context())
        self._seconds[attempt.job.queue].append(seconds)
        signal = ATTEMPT_COMPLETED if isinstance(outcome, Completed) else ATTEMPT_FAILED
        if outcome is not None and signal.heard:
            signal.emit(AttemptEnded(attempt.job, outcome, seconds))

    def _tell_seconds(self) -> None:
        ended, self._seconds = self._seconds, defaultdict(list)
        ATTEMPTS_TIMED.emit(ended)

    async def _handled(self, handler: Handler, attempt: Attempt) -> Outcome:
        """Return what the runner returned; its own faults fail the job, never the worker.

        It runs in this task, not in one of its own, which would cost more than most handlers. So
        a cancellation that ends it, asked for or made by the handler itself, ends here.
        """
        try:
            return await self._runners.run(handler, attempt)
        except asyncio.CancelledError:
            if self._closed:
                raise
            return Failed("the attempt was cancelled from within")
        except Exception as error:  # noqa: BLE001 - whatever a runner raises is the job's outcome
            return outcome_of_error(error, self._rules.limits)
        finally:
            if attempt.task.cancelling():
                await attempt.forget_cancellation()

    def _hear(self, jobs: Sequence[LeasedJob], held: bool, error: Exception | None) -> None:  # noqa: FBT001 - as ``Answered``
        if not held:
            self._dropped += len(jobs)
            for job in jobs:
                _tell_unsettled(job, error)
        self._freed(jobs)

    async def _see_to_its_end(self, attempt: Attempt) -> None:
        if not await attempt.dies(DEATH_LIMIT_S):
            self._give_up(attempt)

    def _give_up(self, attempt: Attempt) -> None:
        """Report nothing: the lease must not end before the attempt is dead with this process."""
        attempt.given_up = True
        del self._attempts[attempt.job.lease]
        self._stuck.add(attempt.task)
        if attempt.trail is not None:
            attempt.trail.ended(None)
        HANDLER_STUCK.emit(HandlerStuck(attempt.job))
        self._on_unfit(attempt.job)


def _unheard(_jobs: Sequence[LeasedJob]) -> None:
    """Nobody counts slots."""


def _tell_unsettled(job: LeasedJob, error: Exception | None) -> None:
    if error is None:
        OUTCOME_DROPPED.emit(OutcomeDropped(job, "the lease was lost"))
    elif isinstance(error, JobQueueError):
        OUTCOME_DROPPED.emit(OutcomeDropped(job, describe(error)))
    else:
        ATTEMPT_BROKE.emit(AttemptBroke(job, error))


def _stopped_outcome(attempt: Attempt) -> Outcome | None:
    """Return how a stopped attempt ended; None when there is nothing to report."""
    if attempt.given_up:
        return None
    match attempt.reason:
        case Stop.TIMED_OUT:
            return Failed(f"timed out after {attempt.timeout_s:g} s", Reason.TIMED_OUT)
        case Stop.CANCELLED:
            return Cancelled("stopped on request")
        case Stop.RELEASED:
            return Released("the worker was told to end")
        case _:
            OUTCOME_DROPPED.emit(OutcomeDropped(attempt.job, "the lease was lost"))
            return None


def _no_handler(job: LeasedJob) -> str:
    what = f"type {job.type!r}" if job.type is not None else "jobs without a type"
    return f"no handler for {what} at this worker"
