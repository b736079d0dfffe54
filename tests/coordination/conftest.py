"""One Redis a session, empty and willing before every test."""

from collections.abc import Iterator

import pytest

from tests.support.redis import RedisServer


@pytest.fixture(scope="session")
def running_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture
def redis_server(running_redis: RedisServer) -> RedisServer:
    """A Redis that holds nothing."""
    running_redis.command("FLUSHALL")
    return running_redis
