"""One broker a session; a topic and a way to it of its own for each test."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
import pytest_asyncio

from jobqueue.store.pool import Pool, create_pool
from tests.support.kafka import Broker, Listener, running_broker
from tests.support.kafka_way import Way
from tests.support.waiting import HANG_S

_numbers = count(1)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with running_broker() as running:
        yield running


@pytest.fixture
def way(broker: Broker) -> Iterator[Way]:
    """Open from the start; a test may cut it."""
    way = Way(broker)
    way.open()
    yield way
    way.close()


@pytest.fixture
def topic(broker: Broker, way: Way) -> str:
    name = f"events-{next(_numbers)}"
    broker.create_topic(name)
    return name


@pytest.fixture
def listener(broker: Broker, topic: str, way: Way) -> Iterator[Listener]:
    listening = Listener(broker, topic)
    yield listening
    listening.close()


@pytest_asyncio.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await create_pool(database, size=8, connect_timeout_s=HANG_S)
    yield opened
    await opened.close()
