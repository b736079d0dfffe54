"""Which leases a keeper answers for, and until when each may be believed. Pure: no I/O."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from jobqueue.domain.lease import Lease
from jobqueue.lease.settings import BUSY_RETRY_S, LeaseSettings
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock

_CANCEL_AGE_S = 1.0
"""Only jobs that run longer are asked about by the second: most end before that."""


@dataclass(frozen=True, slots=True)
class _Hold:
    """What is known of a lease. Those of one batch share it: most end before it changes."""

    held_at: float
    due_at: float  # the next renewal
    trusted_until: float
    deadline: float = math.inf  # no renewal after it
    cancelled: bool = False


class Book:
    """The leases of one worker. All instants are of ``clock``; a lease not held is ignored."""

    def __init__(self, settings: LeaseSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._settings = settings
        self._clock = clock
        self._holds: dict[Lease, _Hold] = {}
        self._adopted: set[Lease] = set()
        self._gone: dict[Lease, float] = {}

    def __len__(self) -> int:
        """Return how many leases are held."""
        return len(self._holds)

    def add(self, leases: Iterable[Lease], proven_at: float) -> None:
        """Answer for these, won by a statement that was sent at ``proven_at``."""
        now = self._clock.monotonic()
        due_at = proven_at + self._settings.renew_interval_s
        trusted_until = self._settings.trusted_until(proven_at)
        new = dict.fromkeys(leases, _Hold(now, due_at, trusted_until))
        proven_since = {k: self._holds[k] for k in self._adopted & new.keys()}
        self._holds.update(new)
        self._holds.update(proven_since)
        self._adopted.difference_update(proven_since)

    def adopt(self, leases: Iterable[Lease], seen_at: float) -> None:
        """Answer for these until the worker, which does not answer, says whose they are.

        They were in its name at ``seen_at``, and are due at once: when they end is not known.
        """
        now = self._clock.monotonic()
        hold = _Hold(now, now, self._settings.trusted_until(seen_at))
        new = [lease for lease in leases if lease not in self._holds]
        self._holds.update(dict.fromkeys(new, hold))
        self._adopted.update(new)

    def drop(self, leases: Collection[Lease]) -> None:
        """Forget these."""
        for lease in leases:
            self._holds.pop(lease, None)
        self._adopted.difference_update(leases)

    def set_deadline(self, lease: Lease, at: float) -> None:
        """Do not renew this one after ``at``."""
        if hold := self._holds.get(lease):
            self._holds[lease] = replace(hold, deadline=at)

    def due(self) -> list[Lease]:
        """Return what to renew now; nothing when nothing is due.

        One that is due takes along all that are half-way there, so that leases of many ages soon
        share one statement.
        """
        now = self._clock.monotonic()
        if self.next_due_s() > 0:
            return []
        reach = now + self._settings.renew_interval_s / 2
        return [k for k, h in self._holds.items() if h.due_at <= reach and now < h.deadline]

    def next_due_s(self) -> float:
        """Return the seconds until a renewal is due, at most the renew interval."""
        now = self._clock.monotonic()
        dues = [h.due_at for h in self._holds.values() if now < h.deadline]
        return min([max(due - now, 0.0) for due in dues] + [self._settings.renew_interval_s])

    def renewed(self, leases: Iterable[Lease], sent_at: float) -> None:
        """Take note of renewals by a statement sent at ``sent_at``."""
        due_at = sent_at + self._settings.renew_interval_s
        trusted_until = self._settings.trusted_until(sent_at)
        for lease, hold in self._held(leases):
            self._holds[lease] = replace(hold, due_at=due_at, trusted_until=trusted_until)

    def busy(self, leases: Iterable[Lease], sent_at: float) -> None:
        """Take note that somebody holds these rows: they are ours, but were not extended.

        While a row is locked the reaper skips it, so belief lasts until we ask again.
        """
        due_at = sent_at + min(BUSY_RETRY_S, self._settings.renew_interval_s / 2)
        asked_again = sent_at + self._settings.renew_interval_s
        for lease, hold in self._held(leases):
            trusted_until = max(hold.trusted_until, asked_again)
            self._holds[lease] = replace(hold, due_at=due_at, trusted_until=trusted_until)

    def lost(self, leases: Iterable[Lease]) -> list[Lease]:
        """Forget these; return those that were held."""
        held = [lease for lease in leases if lease in self._holds]
        now = self._clock.monotonic()
        for lease in held:
            self.drop([lease])
            # The handler may still be dying; its row is the reaper's, not for us to hand back.
            self._gone[lease] = now + 2 * self._settings.lease_s
        return held

    def lapsed(self) -> list[Lease]:
        """Forget those whose time of trust is over, and return them."""
        now = self._clock.monotonic()
        return self.lost([k for k, h in self._holds.items() if now >= h.trusted_until])

    def watched(self) -> list[Lease]:
        """Return those long enough held to ask whether an operator cancelled them."""
        born = self._clock.monotonic() - _CANCEL_AGE_S
        return [k for k, h in self._holds.items() if h.held_at <= born and not h.cancelled]

    def cancelled(self, leases: Iterable[Lease]) -> list[Lease]:
        """Mark these as cancelled; return those for which that is news."""
        news = [k for k in leases if k in self._holds and not self._holds[k].cancelled]
        for lease in news:
            self._holds[lease] = replace(self._holds[lease], cancelled=True)
        return news

    def strangers(self, listed: Iterable[Lease]) -> list[Lease]:
        """Return those of ``listed`` that we were not told of, nor lost a short while ago."""
        now = self._clock.monotonic()
        self._gone = {lease: until for lease, until in self._gone.items() if now < until}
        told = self._holds.keys() - self._adopted
        return [k for k in listed if k not in told and k not in self._gone]

    def _held(self, leases: Iterable[Lease]) -> Sequence[tuple[Lease, _Hold]]:
        return [(lease, self._holds[lease]) for lease in leases if lease in self._holds]
