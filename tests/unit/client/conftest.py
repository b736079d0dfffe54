"""A service that answers as told, and both clients connected to it."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, Client
from tests.support.fake_service import FakeService


@pytest.fixture
def service() -> Iterator[FakeService]:
    fake = FakeService()
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def client(service: FakeService) -> Iterator[Client]:
    with Client(service.address) as made:
        yield made


@pytest_asyncio.fixture
async def aclient(service: FakeService) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(service.address) as made:
        yield made
