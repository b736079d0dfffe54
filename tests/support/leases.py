"""Workers of lease tests: the real thing on a real database, with short times."""

import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime

from jobqueue.domain.lease import LeasedJob
from jobqueue.errors import DeadlineExceeded, Unavailable
from jobqueue.lease.backing import DatabaseBacking
from jobqueue.lease.book import Book
from jobqueue.lease.direct import DirectLeases
from jobqueue.lease.duties import Presence, Reconciler, Tell
from jobqueue.lease.interface import News
from jobqueue.lease.settings import LeaseSettings
from jobqueue.store.pool import Connection
from tests.support.store import WORKER
from tests.support.waiting import HANG_S, eventually
from tests.support.workers import facts

SLOW = LeaseSettings(
    lease_s=30.0, renew_interval_s=10.0, heartbeat_interval_s=0.5, connect_timeout_s=30.0
)
QUICK = replace(SLOW, renew_interval_s=0.8)
"""Renews often. No lease ends by a stall of the machine."""
SHORT = replace(QUICK, lease_s=3.0)
"""Of leases that are to run out."""


@asynccontextmanager
async def open_leases(
    dsn: str,
    *,
    name: str = "w-1",
    queues: Sequence[str] = ("q",),
    types: Sequence[str] = ("t",),
    settings: LeaseSettings = QUICK,
) -> AsyncIterator[DirectLeases]:
    """Open the leases of one worker, and close them at the end."""
    leases = DirectLeases(dsn, settings, queues, types)
    await leases.open(facts(name, queues=queues, pid=os.getpid()))
    try:
        yield leases
    finally:
        await leases.close()


async def take_one(leases: DirectLeases) -> LeasedJob:
    """Claim one job, started."""
    (job,) = await leases.claim(1, running=True)
    return job


async def take_at_last(leases: DirectLeases) -> LeasedJob:
    """Claim one job, started, where leases are so short that a claim may run out of time.

    A job that such a claim took all the same is handed back some seconds later.
    """

    async def taken() -> list[LeasedJob]:
        with suppress(DeadlineExceeded, Unavailable):
            return await leases.claim(1, running=True)
        return []

    (job,) = await eventually(taken, what="a job")
    return job


async def expires_in(db: Connection, job: LeasedJob) -> float:
    """Return the seconds until the lease runs out, negative when it has."""
    left: float = await db.fetchval(
        "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 "
        "FROM jobqueue.leases WHERE id = $1",
        job.lease.job,
    )
    return left


async def is_renewed(db: Connection, job: LeasedJob, times: int = 2) -> None:
    """Wait until a lease was renewed so many times from now on."""
    end = "SELECT expires_at FROM jobqueue.leases WHERE id = $1"
    for _ in range(times):
        last = await db.fetchval(end, job.lease.job)
        assert last is not None, "it was taken back"

        async def later(last: datetime = last) -> bool:
            return bool(await db.fetchval(end, job.lease.job) > last)

        await eventually(later, what="a renewal")


async def replace_keeper(leases: DirectLeases) -> None:
    """Kill the keeper, and wait for another one."""
    first = leases._keeper.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)

    async def replaced() -> bool:
        return leases._keeper.pid not in (None, first)

    await eventually(replaced, what="another keeper")


class Heard:
    """Collects the news of one worker."""

    def __init__(self, leases: DirectLeases) -> None:
        self.news: list[News] = []
        leases.on_news(self.news.append)

    async def hears(self, news: News, *, within_s: float = HANG_S) -> None:
        """Wait until ``news`` came."""

        async def came() -> bool:
            return news in self.news

        await eventually(came, within_s=within_s, what=str(news))


def reconciler(
    backing: DatabaseBacking,
    presence: Presence,
    tell: Tell,
    book: Book | None = None,
    *,
    is_still: Callable[[], bool] = lambda: False,
    renew_soon: Callable[[], None] = lambda: None,
) -> Reconciler:
    """Return one that is not started, of a worker that goes on."""
    book = Book(QUICK) if book is None else book
    return Reconciler(backing.hot, book, presence, tell, is_still=is_still, renew_soon=renew_soon)


def presence_on(backing: DatabaseBacking, tell: Tell) -> Presence:
    """Return that of the worker ``WORKER``, not started."""
    return Presence(backing, facts(), tell, interval_s=60.0, worker=WORKER, draining=False)
