"""Fixtures of the tests that start programs."""

import os
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jobqueue.store.pool import Connection, connect
from tests.support.soundness import assert_sound
from tests.support.store import add_queue
from tests.support.waiting import HANG_S


@pytest.fixture
def seed() -> int:
    """Print what was drawn, so that a failure can be repeated with `JQ_TEST_SEED`."""
    drawn = int(os.environ.get("JQ_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"JQ_TEST_SEED={drawn}")  # noqa: T201 - shown when the test fails
    return drawn


@pytest_asyncio.fixture
async def db(database: str) -> AsyncIterator[Connection]:
    """A connection to a database with one queue; sound at the end."""
    connection = await connect(database, connect_timeout_s=HANG_S)
    await add_queue(connection)
    yield connection
    await assert_sound(connection)
    await connection.close()
