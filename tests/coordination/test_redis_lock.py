"""The lock itself: one owner, and nobody else can extend or end it."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import pytest
import trustme
import uvloop

from jobqueue.config.model import RedisSettings
from jobqueue.coordination.redis_lock import RedisLock, check_redis, open_redis
from jobqueue.coordination.signals import REDIS_OPERATION, RedisOperation
from jobqueue.errors import Unavailable
from tests.chaos.network import Link, Weather, to_port
from tests.support.redis import RedisServer
from tests.support.waiting import eventually

KEY = "lock"
OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
DOCUMENTED_RIGHTS = re.compile(r"A user with `(~jobqueue:[^`]*)`")
SHORT_MS = 200


@asynccontextmanager
async def contenders(
    settings: RedisSettings, count: int = 2, ttl_s: float = 60.0
) -> AsyncIterator[list[RedisLock]]:
    clients = [open_redis(settings) for _ in range(count)]
    yield [RedisLock(client, KEY, ttl_s=ttl_s) for client in clients]
    for client in clients:
        await client.aclose()


async def test_one_contender_gets_the_lock(redis_server: RedisServer) -> None:
    async with contenders(redis_server.settings(), 5) as locks:
        got = await asyncio.gather(*[lock.acquire() for lock in locks])
        assert sorted(got) == [False, False, False, False, True]
        assert redis_server.command("GET", KEY) == locks[got.index(True)].owner


async def test_a_lock_ends_by_itself(redis_server: RedisServer) -> None:
    async with contenders(redis_server.settings(), ttl_s=0.05) as (first, second):
        assert await first.acquire()
        await eventually(second.acquire, what="the lock after its end")
        assert not await first.extend()


async def test_only_the_owner_extends(redis_server: RedisServer) -> None:
    async with contenders(redis_server.settings()) as (owner, other):
        await owner.acquire()
        redis_server.command("PEXPIRE", KEY, 30_000)
        assert not await other.extend()
        assert await owner.remaining_s() <= 30
        assert await owner.extend()
        assert 30 < await other.remaining_s() <= 60


async def test_only_the_owner_releases(redis_server: RedisServer) -> None:
    async with contenders(redis_server.settings()) as (owner, other):
        await owner.acquire()
        assert not await other.release()
        assert redis_server.command("GET", KEY) == owner.owner
        assert await owner.release()
        assert not await owner.release()
        assert await other.remaining_s() == 0
        assert await other.acquire()


async def test_scripts_that_redis_forgot_are_sent_again(redis_server: RedisServer) -> None:
    async with contenders(redis_server.settings(), 1) as (lock,):
        await lock.acquire()
        await lock.extend()
        redis_server.command("SCRIPT", "FLUSH")
        assert await lock.extend()


async def test_a_cut_connection_is_replaced_at_once(redis_server: RedisServer) -> None:
    async with contenders(redis_server.settings(), 1) as (lock,):
        await lock.acquire()
        assert redis_server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= 1
        assert await lock.extend()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_was_reset_while_idle_is_replaced_at_once(
    redis_server: RedisServer, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Programs run on uvloop, which says so in words of its own."""
    link = Link(to_port(redis_server.port))

    async def extended() -> bool:
        async with contenders(RedisSettings(addr=link.address, connect_timeout_ms=60_000), 1) as (
            lock,
        ):
            await lock.acquire()
            await asyncio.to_thread(link.turn, Weather.CUT)
            await asyncio.to_thread(link.turn, Weather.FAIR)
            assert link.hit > 0
            await asyncio.sleep(0)  # the loop hears of the reset
            return await lock.extend()

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(extended())
    link.close()


async def test_a_key_without_an_end_is_nobodys_lock(redis_server: RedisServer) -> None:
    redis_server.command("SET", KEY, "foreign")
    async with contenders(redis_server.settings(), 1) as (lock,):
        assert not await lock.acquire()
        with pytest.raises(Unavailable, match="no expiry"):
            await lock.remaining_s()


@contextmanager
def read_only(server: RedisServer) -> Iterator[None]:
    server.read_only()
    yield
    server.writable()


@contextmanager
def full(server: RedisServer) -> Iterator[None]:
    server.command("CONFIG", "SET", "maxmemory", 1)
    yield
    server.command("CONFIG", "SET", "maxmemory", 0)


@contextmanager
def wrong_type(server: RedisServer) -> Iterator[None]:
    server.command("LPUSH", KEY, "foreign")
    yield


@pytest.mark.parametrize(
    ("spoiled", "changes", "said"),
    [
        (read_only, {}, "read only replica"),
        (full, {}, "maxmemory"),
        (wrong_type, {}, "WRONGTYPE"),
        (lambda s: s.hanging(), {"connect_timeout_ms": SHORT_MS}, "Timeout"),
        (lambda s: s.protected("right"), {"password": "hunter2"}, "WRONGPASS|invalid username"),
        (lambda s: s.protected("right"), {}, "[Aa]uthenticat"),
        (lambda _: nullcontext(), {"db": 99}, "out of range"),
        (lambda _: nullcontext(), {"addr": "127.0.0.1:1"}, "refused|[Cc]onnect"),
        (lambda _: nullcontext(), {"tls": True, "connect_timeout_ms": SHORT_MS}, None),
    ],
    ids=[
        "read only",
        "out of memory",
        "wrong type",
        "slow",
        "wrong password",
        "no password",
        "no such db",
        "absent",
        "tls without tls",
    ],
)
async def test_a_redis_that_cannot_say_is_unavailable(
    redis_server: RedisServer,
    spoiled: Callable[[RedisServer], AbstractContextManager[None]],
    changes: dict[str, object],
    said: str | None,
) -> None:
    operations: list[RedisOperation] = []
    stop = REDIS_OPERATION.subscribe(operations.append)
    async with contenders(redis_server.settings(**changes), 1) as (lock,):
        with spoiled(redis_server), pytest.raises(Unavailable, match=said) as caught:
            _ = await lock.extend() or await lock.acquire()
    stop()
    assert "hunter2" not in caught.value.message
    assert not operations[-1].ok


async def test_operations_are_timed_by_name(redis_server: RedisServer) -> None:
    operations: list[RedisOperation] = []
    stop = REDIS_OPERATION.subscribe(operations.append)
    async with contenders(redis_server.settings(), 1) as (lock,):
        await lock.acquire()
        await lock.extend()
        await lock.remaining_s()
        await lock.release()
    stop()
    assert [o.operation for o in operations] == ["acquire", "extend", "look", "release"]
    assert all(o.ok and o.seconds >= 0 for o in operations)


async def test_user_password_and_db_are_used_and_the_documented_rights_suffice(
    redis_server: RedisServer,
) -> None:
    needed = DOCUMENTED_RIGHTS.search(OPERATIONS.read_text())
    assert needed is not None
    rights = needed[1].replace("jobqueue:*", KEY).split()
    redis_server.command("ACL", "SETUSER", "jq", "on", ">secret", *rights)
    try:
        settings = redis_server.settings(username="jq", password="secret", db=3)
        async with contenders(settings) as (lock, other):
            assert await lock.acquire()
            assert await lock.extend()
            assert await other.remaining_s() > 0
            assert await lock.release()
            assert await other.acquire()
        assert redis_server.command("EXISTS", KEY) == 0
    finally:
        redis_server.command("ACL", "DELUSER", "jq")


async def test_a_check_leaves_nothing_behind(redis_server: RedisServer) -> None:
    assert redis_server.addr in await check_redis(redis_server.settings())
    assert redis_server.command("DBSIZE") == 0


@asynccontextmanager
async def tls_front(server: RedisServer, authority: trustme.CA) -> AsyncIterator[int]:
    """Speak TLS on a port and pass on what is said to the server."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.TaskGroup() as both:
            both.create_task(pipe(reader, back_writer))
            both.create_task(pipe(back_reader, writer))

    front = await asyncio.start_server(serve, "localhost", 0, ssl=context)
    async with front:
        yield front.sockets[0].getsockname()[1]


async def test_tls_is_spoken_and_the_certificate_checked(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    async with tls_front(redis_server, authority) as port:
        settings = redis_server.settings(addr=f"localhost:{port}", tls=True)
        async with contenders(settings, 1) as (stranger,):
            with pytest.raises(Unavailable, match="certificate"):
                await stranger.acquire()
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        async with contenders(settings, 1) as (lock,):
            assert await lock.acquire()
    assert redis_server.command("GET", KEY) == lock.owner
