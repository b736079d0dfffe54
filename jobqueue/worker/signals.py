"""What the worker room tells to whoever counts and logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Outcome
from jobqueue.domain.records import record
from jobqueue.runtime.signals import Signal


@record
class AttemptBegun:
    """A handler was looked up and is about to run."""

    job: LeasedJob


@record
class AttemptEnded:
    """A handler is over, ``seconds`` after it was looked up. Not settled yet."""

    job: LeasedJob
    outcome: Outcome
    seconds: float


@dataclass(frozen=True, slots=True)
class OutcomeDropped:
    """The lease was lost, or the outcome could not be written while it was held."""

    job: LeasedJob
    why: str


@dataclass(frozen=True, slots=True)
class AttemptBroke:
    """A fault of ours while a job was run; its lease is left to expire."""

    job: LeasedJob
    error: BaseException


@dataclass(frozen=True, slots=True)
class HandlerStuck:
    """A handler that cannot be killed ignored its end; the worker is unfit and will exit."""

    job: LeasedJob


@dataclass(frozen=True, slots=True)
class ChildDied:
    """A handler process ended by itself."""

    pid: int
    how: str


@dataclass(frozen=True, slots=True)
class LookHangs:
    """A look at the processes of the machine has no end: an attempt was over without it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """One of several worker processes ended; ``again_in_s`` None: it is not replaced."""

    pid: int
    how: str
    again_in_s: float | None


@dataclass(frozen=True, slots=True)
class PhaseEntered:
    """The worker as a whole went on: ready, draining, stopping, stopped; or it could not.

    That is: unfit, replaced or forgotten.
    """

    phase: str
    detail: str = ""


ATTEMPT_BEGUN: Signal[AttemptBegun] = Signal("attempt_begun")
ATTEMPT_COMPLETED: Signal[AttemptEnded] = Signal("attempt_completed")
ATTEMPT_FAILED: Signal[AttemptEnded] = Signal("attempt_failed")
"""It ended in any other way."""

ATTEMPTS_TIMED: Signal[Mapping[str, Sequence[float]]] = Signal("attempts_timed")
"""How many seconds handlers took, by queue: all that ended in one turn of the loop at once, however
they ended, also when their lease was lost."""

OUTCOME_DROPPED: Signal[OutcomeDropped] = Signal("outcome_dropped")
ATTEMPT_BROKE: Signal[AttemptBroke] = Signal("attempt_broke")
HANDLER_STUCK: Signal[HandlerStuck] = Signal("handler_stuck")
CHILD_DIED: Signal[ChildDied] = Signal("child_died")
LOOK_HANGS: Signal[LookHangs] = Signal("look_hangs")
PHASE_ENTERED: Signal[PhaseEntered] = Signal("phase_entered")
PROCESS_ENDED: Signal[ProcessEnded] = Signal("process_ended")
