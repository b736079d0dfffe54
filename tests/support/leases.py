"""Workers of lease tests: the real thing on a real database, with short times."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from jobqueue.lease.direct import DirectLeases
from jobqueue.lease.interface import News
from jobqueue.lease.settings import LeaseSettings
from tests.support.waiting import eventually
from tests.support.workers import facts

QUICK = LeaseSettings(lease_s=3.0, renew_interval_s=0.8, heartbeat_interval_s=0.5)


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


class Heard:
    """Collects the news of one worker."""

    def __init__(self, leases: DirectLeases) -> None:
        self.news: list[News] = []
        leases.on_news(self.news.append)

    async def hears(self, news: News, *, within_s: float = 15.0) -> None:
        """Wait until ``news`` came."""

        async def came() -> bool:
            return news in self.news

        await eventually(came, within_s=within_s, what=str(news))
