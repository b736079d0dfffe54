"""A lock in Redis: one key with a random owner, which ends by itself (R-4.11).

The only file that knows the vendor. Works with one Redis, or with the primary of several behind
one address.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError

from jobqueue.config.address import split_address
from jobqueue.config.model import RedisSettings
from jobqueue.coordination.signals import REDIS_OPERATION, RedisOperation
from jobqueue.errors import Unavailable

Client: TypeAlias = Redis
T = TypeVar("T")

_EXTEND = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
"""
_DEAD = (ConnectionLost, RuntimeError)
"""What says that a connection is dead. uvloop's word for one that was reset while it was idle is
RuntimeError, as of a transport that is closed."""
_NO_EXPIRY = -1
_OWNER_BYTES = 16


def open_redis(settings: RedisSettings) -> Client:
    """Return a client of ``redis.addr``; it connects when it is first used.

    Connecting and every answer are waited for ``redis.connect_timeout_ms``. A connection that
    turns out to be dead is replaced once, at once.
    """
    host, port = split_address(settings.addr or "")
    timeout_s = settings.connect_timeout_ms / 1000
    return Redis(
        host=host,
        port=port,
        db=settings.db,
        username=settings.username,
        password=settings.password.reveal() if settings.password else None,
        ssl=settings.tls,
        ssl_check_hostname=settings.tls,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 1, _DEAD),  # type: ignore[arg-type] # it takes any
    )


class RedisLock:
    """One contender for the lock ``key``. Every method raises Unavailable when Redis cannot say.

    After Unavailable nothing is known: the lock may have been taken, extended or released.
    """

    def __init__(self, client: Client, key: str, *, ttl_s: float) -> None:
        self.key = key
        self.ttl_s = ttl_s
        self.owner = secrets.token_hex(_OWNER_BYTES)
        self._client = client
        self._extend = client.register_script(_EXTEND)
        self._release = client.register_script(_RELEASE)

    async def acquire(self) -> bool:
        """Take the lock for ``ttl_s`` if nobody holds it."""

        async def ask() -> bool:
            return bool(await self._client.set(self.key, self.owner, nx=True, px=self._ttl_ms))

        return await _timed("acquire", ask)

    async def extend(self) -> bool:
        """Hold the lock for another ``ttl_s``; False when it is not, or no longer, ours."""

        async def ask() -> bool:
            return bool(await self._extend(keys=[self.key], args=[self.owner, self._ttl_ms]))

        return await _timed("extend", ask)

    async def release(self) -> bool:
        """Give the lock back; False when it was not, or no longer, ours."""

        async def ask() -> bool:
            return bool(await self._release(keys=[self.key], args=[self.owner]))

        return await _timed("release", ask)

    async def remaining_s(self) -> float:
        """Return the seconds until the lock ends if its owner does nothing; 0 when it is free.

        A key without an end is not of our making and would keep everyone out: Unavailable.
        """

        async def ask() -> float:
            left_ms = int(await self._client.pttl(self.key))
            if left_ms == _NO_EXPIRY:
                raise Unavailable(f"the key {self.key} has no expiry", reason="FOREIGN_LOCK")
            return max(left_ms, 0) / 1000

        return await _timed("look", ask)

    @property
    def _ttl_ms(self) -> int:
        return max(round(self.ttl_s * 1000), 1)


async def check_redis(settings: RedisSettings) -> str:
    """Take and release a lock; return one line about the server. Raises Unavailable."""
    client = open_redis(settings)
    try:
        lock = RedisLock(client, f"jobqueue:check:{secrets.token_hex(_OWNER_BYTES)}", ttl_s=5.0)
        await lock.acquire()
        await lock.release()
        return f"{settings.addr} answers and grants locks"
    finally:
        await client.aclose()


async def _timed(operation: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask, and signal how long that took. Raises Unavailable for whatever is not an answer."""
    begun, ok = time.monotonic(), False
    try:
        with _translated():
            answer = await ask()
        ok = True
    finally:
        REDIS_OPERATION.emit(RedisOperation(operation, time.monotonic() - begun, ok))
    return answer


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError, RuntimeError) as error:
        # Its refusals (READONLY, OOM, WRONGPASS) begin with their code and hold no secret.
        raise Unavailable(str(error) or "Redis did not answer in time", reason="REDIS") from error
