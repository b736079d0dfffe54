"""What a keeper asks of the place where its worker's leases live."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from jobqueue.domain.lease import Lease, Renewal
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.lease.hot import HotConnection, connecting
from jobqueue.lease.settings import LeaseSettings
from jobqueue.store import workers
from jobqueue.store.leases import list_cancelled_leases, renew_leases


class Backing(Protocol):
    """The database, or a server in front of it. Raises Unavailable and its like; repeatable."""

    async def register(self, facts: WorkerFacts) -> int:
        """Register the worker, or again; return its number."""

    async def beat(self, worker: int, *, draining: bool) -> WorkerCommand | None:
        """Say that the worker lives; return what is asked of it, None when it must register."""

    async def renew(self, worker: int, leases: Sequence[Lease]) -> Sequence[Renewal]:
        """Extend leases; answer each."""

    async def cancelled(self, worker: int, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Return those of ``leases`` that an operator asked to end."""

    async def close(self) -> None:
        """Cut the connection."""


class DatabaseBacking:
    """A keeper's own connection to PostgreSQL."""

    def __init__(
        self,
        dsn: str,
        settings: LeaseSettings,
        facts: WorkerFacts,
        on_reconnect: Callable[[], None],
    ) -> None:
        self._facts = facts
        self._lease_s = settings.lease_s
        self.hot = HotConnection(
            connecting(dsn, settings, "jq-keeper"),
            timeout_s=settings.statement_timeout_s,
            on_reconnect=on_reconnect,
        )

    async def register(self, facts: WorkerFacts) -> int:
        """Register the worker, or again; return its number."""
        return await self.hot.run(lambda c: workers.register_worker(c, facts))

    async def beat(self, worker: int, *, draining: bool) -> WorkerCommand | None:
        """Say that the worker lives; return what is asked of it, None when its row is gone."""
        return await self.hot.run(
            lambda c: workers.beat_worker(
                c, worker, draining=draining, clock_s=time.time(), facts=self._facts
            )
        )

    async def renew(self, worker: int, leases: Sequence[Lease]) -> Sequence[Renewal]:
        """Extend leases in one statement."""
        lease_s = self._lease_s
        return await self.hot.run(
            lambda c: renew_leases(c, worker=worker, leases=leases, lease_s=lease_s)
        )

    async def cancelled(self, worker: int, leases: Sequence[Lease]) -> Sequence[Lease]:  # noqa: ARG002 - the token is fence enough
        """Look by primary key."""
        return await self.hot.run(lambda c: list_cancelled_leases(c, leases))

    async def close(self) -> None:
        """Cut the connection."""
        await self.hot.close()
