"""What ends a worker's wait for jobs: hints, and the cut of the connection that hears them."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from jobqueue.store.pool import Connection, connect
from jobqueue.store.wakeups import notify_queues
from tests.support.leases import open_leases
from tests.support.store import add_queue, cut


@pytest_asyncio.fixture
async def db(database: str) -> AsyncIterator[Connection]:
    """A connection to a database with one queue."""
    connection = await connect(database)
    await add_queue(connection)
    yield connection
    await connection.close()


async def test_a_hint_ends_the_wait_and_others_hints_do_not(database: str, db: Connection) -> None:
    async with open_leases(database) as leases:
        assert await leases.claim(1, running=True) == []
        assert await leases.wait_for_work(20.0), "hints were missed until the first claim"
        await notify_queues(db, ["somebody elses"])
        assert not await leases.wait_for_work(0.2)
        waiting = asyncio.create_task(leases.wait_for_work(20.0))
        await notify_queues(db, ["q"])
        assert await waiting
        assert not await leases.wait_for_work(0.01)


async def test_the_cut_of_what_listens_is_a_hint_and_the_next_claim_listens_again(
    database: str, db: Connection
) -> None:
    async with open_leases(database) as leases:
        for _ in range(2):
            assert await leases.claim(1, running=True) == []
            assert await leases.wait_for_work(20.0), "hints were missed until this claim"
            assert await cut(db, "jq-worker") == 1
            assert await leases.wait_for_work(20.0), "claim now: nothing else would connect"
        assert await leases.claim(1, running=True) == []
        assert await leases.wait_for_work(20.0)
        waiting = asyncio.create_task(leases.wait_for_work(20.0))
        await notify_queues(db, ["q"])
        assert await waiting
