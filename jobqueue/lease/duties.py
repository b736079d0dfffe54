"""What a keeper does for its worker, one loop a duty.

Those that speak to where the leases live share one ``Backing``; those that must not wait for it,
trust and stall, never touch it.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence

from jobqueue.domain.lease import Lease, Renewal
from jobqueue.domain.outcome import Released, decide
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.errors import JobQueueError
from jobqueue.lease.backing import Backing
from jobqueue.lease.book import Book
from jobqueue.lease.hot import HotConnection
from jobqueue.lease.messages import (
    Cancel,
    Command,
    Lost,
    Message,
    Reach,
    Registered,
    Renewed,
    Unknown,
)
from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.tally import tell_found, tell_settled
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.runtime.service import Service
from jobqueue.store.leases import HeldLease, list_leases, settle_leases

Tell = Callable[[Message], None]

CLAIM_FLIGHT_S = 5.0
"""A lease is a stranger only when its claim was sent at least this long ago."""

_SILENCE_S = 4.0
"""An idle worker is heard of at least every 3 s."""

_CANCEL_INTERVAL_S = 1.0
_RECONCILE_INTERVAL_S = 600.0
_RECONCILE_AGAIN_S = 30.0
_RECONCILE_SHARE = 600
"""Listing a worker's leases reads the whole table; it may take 1/600 of the time.

It is done when there is reason to: a claim or a connection was cut off. The long interval is only
a backstop, because a lease that nobody knows is renewed by nobody and soon expires."""


class Presence(Service):
    """Registers the worker, beats, and hears what operators ask of it."""

    def __init__(
        self,
        backing: Backing,
        facts: WorkerFacts,
        tell: Tell,
        *,
        interval_s: float,
        worker: int | None,
        draining: bool,
    ) -> None:
        super().__init__("keeper-presence", interval_s=interval_s)
        self.worker = worker
        self.draining = draining
        self._backing = backing
        self._facts = facts
        self._tell = tell
        self._heard = WorkerCommand.NONE
        self._trouble: str | None = None

    async def turn(self) -> float | None:
        """Register when there is no row, else beat; tell the worker when that stops to work."""
        try:
            wait_s = await self._show()
        except JobQueueError as error:
            self._tell_trouble(error.message)
            raise
        self._tell_trouble("")
        return wait_s

    def _tell_trouble(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._tell(Reach(trouble))

    async def _show(self) -> float | None:
        command = await self._beat()
        if command is None:
            worker = await self._backing.register(self._facts)
            self.worker = worker
            self._tell(Registered(worker))
            return 0.0 if self.draining else None
        if command not in (WorkerCommand.NONE, self._heard):
            self._tell(Command(command))
        self._heard = command
        return None

    async def _beat(self) -> WorkerCommand | None:
        if self.worker is None:
            return None
        return await self._backing.beat(self.worker, draining=self.draining)


class Renewer(Service):
    """Renews all leases of the worker in one statement."""

    def __init__(
        self,
        backing: Backing,
        book: Book,
        presence: Presence,
        settings: LeaseSettings,
        tell: Tell,
    ) -> None:
        super().__init__("keeper-renewal", interval_s=settings.renew_interval_s, jitter=0.0)
        self._backing = backing
        self._book = book
        self._presence = presence
        self._tell = tell

    async def turn(self) -> float | None:
        """Renew what is due; return when to look again."""
        due, worker = self._book.due(), self._presence.worker
        if due and worker is not None:
            sent_at = time.monotonic()
            self._note(await self._backing.renew(worker, due), sent_at)
        return max(self._book.next_due_s(), 0.01)

    def _note(self, renewals: Sequence[Renewal], sent_at: float) -> None:
        renewed = tuple(r.lease for r in renewals if r.state == "renewed")
        self._book.renewed(renewed, sent_at)
        self._book.busy([r.lease for r in renewals if r.state == "busy"], sent_at)
        lost = self._book.lost(r.lease for r in renewals if r.state == "lost")
        cancelled = self._book.cancelled(r.lease for r in renewals if r.cancel_requested)
        if renewed:
            self._tell(Renewed(renewed, sent_at))
        if lost:
            self._tell(Lost(tuple(lost), "it was given to somebody else or ended"))
        if cancelled:
            self._tell(Cancel(tuple(cancelled)))


class CancelWatch(Service):
    """Looks for cancel requests once a second while jobs run that long.

    A renewal brings them too; this only makes an operator's wait shorter than its interval.
    """

    def __init__(self, backing: Backing, book: Book, presence: Presence, tell: Tell) -> None:
        super().__init__("keeper-cancels", interval_s=_CANCEL_INTERVAL_S)
        self._backing = backing
        self._book = book
        self._presence = presence
        self._tell = tell

    async def turn(self) -> None:
        """Ask about the leases held for more than a second, if there are any."""
        watched, worker = self._book.watched(), self._presence.worker
        if not watched or worker is None:
            return
        cancelled = self._book.cancelled(await self._backing.cancelled(worker, watched))
        if cancelled:
            self._tell(Cancel(tuple(cancelled)))


class TrustWatch(Service):
    """Gives leases up before the database does, when they could not be renewed."""

    def __init__(self, book: Book, settings: LeaseSettings, tell: Tell) -> None:
        super().__init__("keeper-trust", interval_s=min(settings.margin_s / 4, 1.0))
        self._book = book
        self._tell = tell

    async def turn(self) -> None:
        """Report what is no longer to be believed."""
        lapsed = self._book.lapsed()
        if lapsed:
            self._tell(Lost(tuple(lapsed), "it could not be renewed in time"))


class Reconciler(Service):
    """Hands back leases that nobody holds: their claim was cut off before its answer came.

    Uncharged: their jobs never ran. A worker that stands still cannot say what it holds; what a
    claim of its brought meanwhile is renewed until it can.
    """

    def __init__(
        self,
        hot: HotConnection,
        book: Book,
        presence: Presence,
        tell: Tell,
        *,
        is_still: Callable[[], bool],
        renew_soon: Callable[[], None],
    ) -> None:
        super().__init__(
            "keeper-reconcile", interval_s=_RECONCILE_INTERVAL_S, bound_s=2 * _RECONCILE_INTERVAL_S
        )
        self._hot = hot
        self._book = book
        self._presence = presence
        self._tell = tell
        self._is_still = is_still
        self._renew_soon = renew_soon
        self._asked: dict[Lease, HeldLease] = {}

    async def turn(self) -> float | None:
        """Ask the worker about leases in its name that it did not tell us to renew.

        While there are some, look again soon: it may not know yet what a claim in flight brings.
        """
        worker = self._presence.worker
        if worker is None:
            return None
        begun, still = time.monotonic(), self._is_still()
        # Of one that stands still each claim that it sent may be taken for an old one.
        age_s = 0.0 if still else CLAIM_FLIGHT_S
        listed = await self._hot.run(lambda c: list_leases(c, worker=worker, older_than_s=age_s))
        cost_s = time.monotonic() - begun
        by_lease = {held.lease: held for held in listed}
        self._asked = {lease: by_lease[lease] for lease in self._book.strangers(by_lease)}
        if not self._asked:
            return max(_RECONCILE_INTERVAL_S, _RECONCILE_SHARE * cost_s)
        if still:
            self._book.adopt(self._asked, begun)
            self._renew_soon()
        else:
            self._tell(Unknown(tuple(self._asked)))
        return min(max(CLAIM_FLIGHT_S, _RECONCILE_SHARE * cost_s), _RECONCILE_AGAIN_S)

    async def hand_back(self, leases: Sequence[Lease]) -> None:
        """Release those that the worker disowned."""
        worker = self._presence.worker
        known = [self._asked[lease] for lease in leases if lease in self._asked]
        if worker is None or not known:
            return
        outcome = Released("its claim was cut off before the worker heard of it")
        settlements = [decide(h.charge, outcome, crash_limit=1, jitter=0.0) for h in known]
        answers = await self._hot.run(
            lambda c: settle_leases(c, worker=worker, settlements=settlements)
        )
        self._book.drop([held.lease for held in known])
        held = [self._asked[a.lease] for a in answers if a.state == "settled"]
        tell_found(held)
        asked = {h.lease: (h.queue, s) for h, s in zip(known, settlements, strict=True)}
        tell_settled(answers, asked, unclear=True)


class StallWatch(Service):
    """Kills a worker whose loop stands still, so that it does not hold its leases for ever.

    Counts its own turns, not the clock: after the whole machine or this process stood still, the
    worker gets its time again. ``on_still`` is called once the worker was silent for longer than
    an idle one is, and for as long as a renewal may wait.
    """

    def __init__(
        self,
        parent: int,
        settings: LeaseSettings,
        on_still: Callable[[], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        limit_s = settings.stall_limit_s
        super().__init__("keeper-stall", interval_s=min(limit_s / 10, 1.0), jitter=0.0)
        self._parent = parent
        self._limit_s = limit_s
        self._silence_s = max(settings.renew_interval_s, _SILENCE_S)
        self._on_still = on_still
        self._clock = clock
        self._still_s = 0.0
        self._last = clock.monotonic()

    @property
    def still(self) -> bool:
        """Whether the worker has been silent for so long that it can answer nothing."""
        return self._still_s >= self._silence_s

    def beat(self) -> None:
        """The worker's loop turned."""
        self._still_s = 0.0

    async def turn(self) -> None:
        """Add up how long the worker has been still; kill it over the limit."""
        now, still = self._clock.monotonic(), self.still
        self._still_s += min(now - self._last, 2 * self.interval_s)
        self._last = now
        if self.still and not still:
            self._on_still()
        if self._still_s >= self._limit_s and os.getppid() == self._parent:
            os.kill(self._parent, signal.SIGKILL)
