"""How a worker holds jobs: one interface, wherever the leases really live.

A worker never sees SQL. It claims, starts and settles through ``Leases``, and hears by ``News``
what happened to the jobs it holds. Every write is fenced by the lease's token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Outcome
from jobqueue.domain.worker import WorkerCommand, WorkerFacts


@dataclass(frozen=True, slots=True)
class LeaseGone:
    """The lease is lost: stop the handler, drop whatever it returns."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """An operator wants this running job to end: stop the handler, then settle."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """An operator asked this worker to drain or to shut down."""

    command: WorkerCommand


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Where leases live this worker was not known any more, and it was registered as another one.

    What it holds is lost, and what it goes on with under its former number comes to nothing.
    """


Answered = Callable[[Sequence[LeasedJob], bool, Exception | None], None]
"""Hears on the event loop what came of settlements: whether the leases were held to their ends, and
what the database said when it refused even that there were outcomes. Jobs that were settled with
one and the same callback may be named together. Must not raise."""

News = LeaseGone | CancelRequested | CommandReceived | Forgotten


class Leases(Protocol):
    """The jobs this worker holds. Made for one worker process, used from its event loop.

    Methods raise ``Unavailable`` when the database cannot be reached; that is always transient.
    """

    @property
    def hold_limit_s(self) -> float:
        """How long an unstarted job may be kept, where that is not for the worker's settings.

        Infinite otherwise. Known once ``open`` is done.
        """

    async def open(self, facts: WorkerFacts) -> None:
        """Register the worker, start the renewing of leases, open own connections.

        Never more than three connections per process: for claims, for settles, the keeper's.
        """

    async def claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        """Take up to ``n`` jobs of the subscribed, unpaused queues and keep their leases alive.

        With ``running`` they come started, without it ASSIGNED. A job that nobody here can handle
        comes back with ``running=False`` either way and must be settled as Unhandled.
        May be called while other calls of it are under way: they are answered in their order.
        """

    async def start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        """Move ASSIGNED jobs to RUNNING; return the leases for which that is true.

        The others are lost, cancelled or past their TTL: they are already forgotten.
        """

    def settle(self, job: LeasedJob, outcome: Outcome, answered: Answered) -> None:
        """End a lease with an outcome; ``answered`` hears False when it was lost.

        Returns at once: to wait for each answer would cost a job more than the rest of its way.
        What the outcome costs and where the job goes is decided where the leases live.

        Calls are batched. Transient errors are retried while the lease may still be held. The
        lease is renewed until the answer, and not after it.
        """

    def set_deadline(self, lease: Lease, seconds: float) -> None:
        """Renew this lease for ``seconds`` from now at most."""

    def on_news(self, callback: Callable[[News], None]) -> None:
        """Call ``callback`` on the event loop with everything the worker must hear."""

    async def wait_for_work(self, timeout_s: float) -> bool:
        """Wait for a hint that there may be work: True when one came, False after ``timeout_s``."""

    def stop_claiming(self) -> None:
        """There will be no claim any more: hand back what was taken ahead of one."""

    async def set_draining(self) -> None:
        """Show the worker as DRAINING."""

    def beat(self) -> None:
        """Say that claims came round: a worker whose claims hang is killed in the end."""

    async def close(self) -> None:
        """Stop renewing and deregister. Leases still held are left to expire."""
