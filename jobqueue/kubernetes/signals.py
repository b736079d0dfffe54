"""What is told of the pod's annotation, for those who log it."""

from dataclasses import dataclass

from jobqueue.runtime.signals import Signal


@dataclass(frozen=True, slots=True)
class CostWritten:
    """The annotation holds ``cost`` now; ``known`` is False after a start and after failures."""

    cost: int
    known: bool


@dataclass(frozen=True, slots=True)
class CostUnwritten:
    """The annotation could not be written; ``cause`` is text for people."""

    cause: str


COST_WRITTEN: Signal[CostWritten] = Signal("cost_written")
COST_UNWRITTEN: Signal[CostUnwritten] = Signal("cost_unwritten")
