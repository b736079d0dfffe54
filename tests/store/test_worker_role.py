"""The grants that docs/operations.md gives a worker's role are enough, and not too much."""

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.domain.outcome import Failed, Released
from jobqueue.domain.worker import WorkerFacts
from jobqueue.store.leases import (
    list_cancelled_leases,
    list_leases,
    lock_queue,
    renew_leases,
    start_leases,
)
from jobqueue.store.pool import Connection
from jobqueue.store.queues import list_queue_serving
from jobqueue.store.workers import beat_worker, deregister_worker, register_worker
from tests.store.conftest import Connect
from tests.support.roles import worker_role
from tests.support.store import add_queue, claim_one, settle, spec, store, submit

LEASE_S = 30.0
FACTS = WorkerFacts("w", "host", 1, ("q",), ("t",), 1, "direct", "1")


@pytest_asyncio.fixture
async def as_worker(db: Connection, another: Connect) -> AsyncIterator[Connection]:
    """A connection that may do what the document grants, under a name of its own."""
    role = f"jq_worker_{uuid4().hex}"
    await db.execute(worker_role(role))
    connection = await another()
    await connection.execute(f"SET ROLE {role}")
    yield connection
    await connection.execute("RESET ROLE")
    await db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_the_documented_role_can_do_all_that_a_worker_does(
    db: Connection, as_worker: Connection
) -> None:
    await add_queue(db, max_retries=1)
    await add_queue(db, "limited", max_running=1)
    await submit(db, 3)
    worker = await register_worker(as_worker, FACTS)
    assert await beat_worker(as_worker, worker) is not None
    assert len(await list_queue_serving(as_worker, ["q", "limited"])) == len(("q", "limited"))
    assert (await lock_queue(as_worker, "limited")).max_running == 1
    job = await claim_one(as_worker, running=False, worker=worker)
    (started,) = await start_leases(as_worker, worker=worker, leases=[job.lease], lease_s=LEASE_S)
    (kept,) = await renew_leases(as_worker, worker=worker, leases=[job.lease], lease_s=LEASE_S)
    assert (started.state, kept.state) == ("started", "renewed")
    assert len(await list_leases(as_worker, worker=worker, older_than_s=0)) == 1
    assert await list_cancelled_leases(as_worker, [job.lease]) == []
    assert await settle(as_worker, job, worker=worker) == "settled"
    for outcome in (Failed("no"), Released("enough")):
        job = await claim_one(as_worker, worker=worker)
        assert await settle(as_worker, job, outcome, worker=worker) == "settled"
    await deregister_worker(as_worker, worker)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobqueue.job_events SET seq = 0",
        "DELETE FROM jobqueue.job_events",
        "TRUNCATE jobqueue.job_events",
        "SELECT key FROM jobqueue.idempotency_keys",
        "UPDATE jobqueue.jobs SET priority = 9",
        "UPDATE jobqueue.queues SET paused = true",
    ],
)
async def test_the_documented_role_can_do_no_more(as_worker: Connection, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await as_worker.execute(statement)


async def test_the_documented_role_cannot_submit(db: Connection, as_worker: Connection) -> None:
    await add_queue(db)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await store(as_worker, [spec()])
