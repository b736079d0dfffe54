"""Connections as the product opens them, and a last look at every database."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest_asyncio

from jobqueue.store.pool import Connection, Pool, connect, create_pool
from tests.support.checkup import live
from tests.support.postgres import Cluster
from tests.support.soundness import assert_sound
from tests.support.waiting import HANG_S

Connect = Callable[[], Awaitable[Connection]]


@pytest_asyncio.fixture
async def another(pg: Cluster, database: str) -> AsyncIterator[Connect]:
    """Open one more connection with the product's settings; closed after the test.

    Except that the server never ends it: in a transaction it may stand still as long as tests wait.
    """
    async with AsyncExitStack() as closing:

        async def open_one() -> Connection:
            connection = await connect(database, pgbouncer=pg.pooled, connect_timeout_s=HANG_S)
            closing.push_async_callback(connection.close)
            if not pg.pooled:  # there it would be set for whoever comes next
                await connection.execute("SET idle_in_transaction_session_timeout = 0")
            return connection

        yield open_one


@pytest_asyncio.fixture
async def bare(another: Connect) -> Connection:
    """One connection to a database that the test may leave in any state."""
    return await another()


@pytest_asyncio.fixture
async def db(bare: Connection) -> AsyncIterator[Connection]:
    """One connection; after the test the whole database must still be sound."""
    yield bare
    await assert_sound(bare)


@pytest_asyncio.fixture
async def pool(pg: Cluster, database: str) -> AsyncIterator[Pool]:
    """A pool with the product's settings."""
    opened = await create_pool(database, size=8, pgbouncer=pg.pooled, connect_timeout_s=HANG_S)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def lived(bare: Connection) -> Connection:
    """One connection to a database with a past, for tests that do it harm."""
    await live(bare)
    return bare
