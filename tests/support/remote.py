"""Scripted remote workers, for tests of what a server does for them."""

from typing import Any

import asyncpg

from jobqueue.domain.lease import LeasedJob
from jobqueue.lease.desk import Desk
from jobqueue.lease.hot import HotConnection
from jobqueue.store.pool import Pool, connect
from jobqueue.testing import FakeWorker
from tests.support.facade import Facade
from tests.support.store import status
from tests.support.waiting import HANG_S, eventually

TIMES = {"lease__duration_s": 60, "lease__renew_interval_s": 0.5, "reaper__interval_ms": 100}
"""As settings for ``serving``: leases that end only when a test ends them, then at once."""


def make_desk(pool: Pool, dsn: str) -> Desk:
    """Return a server's desk without the server."""
    reserve = HotConnection(lambda: connect(dsn, connect_timeout_s=HANG_S), timeout_s=10.0)
    return Desk(pool, reserve=reserve, lease_s=60.0, claimers=2, announce=lambda queues: None)


def fake(facade: Facade, **facts: Any) -> FakeWorker:
    """Return a worker ``w-1`` of this server; ``facts`` replace what it says of itself."""
    return FakeWorker(f"127.0.0.1:{facade.port}", **{"worker_id": "w-1", **facts})


async def one(worker: FakeWorker) -> LeasedJob:
    """Wait for one job."""
    (job,) = await worker.take()
    return job


async def started(worker: FakeWorker) -> LeasedJob:
    """Wait for one job and start it."""
    job = await one(worker)
    assert await worker.start(job) == ["STARTED"]
    return job


async def becomes(conn: asyncpg.Connection, job: LeasedJob, wanted: str) -> None:
    """Wait until a job has this status."""

    async def look() -> bool:
        return await status(conn, job.job_id) == wanted

    await eventually(look, what=f"{job.job_id} {wanted}")
