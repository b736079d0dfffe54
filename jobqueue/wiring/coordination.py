"""Which duties act under which lock, and what is said about it (R-4.11)."""

from collections.abc import Sequence

from jobqueue.config.model import RedisSettings
from jobqueue.coordination.acting import ActingLock
from jobqueue.coordination.redis_lock import RedisLock, open_redis
from jobqueue.coordination.signals import LOCK_CHANGED, LockChanged, LockState
from jobqueue.reaper.duty import Duty
from jobqueue.rpc.components import DEGRADED, OFF, OK, component
from jobqueue.runtime.log import get_logger
from jobqueue.v1 import admin_service_pb2 as admin

REAPER, SCHEDULER = "reaper", "scheduler"

_log = get_logger(__name__)


class Coordination:
    """The locks of one server. Without `redis.addr` there are none, and every duty acts."""

    def __init__(self, settings: RedisSettings, cluster: str) -> None:
        """``cluster`` names the database: installations that share a Redis share no lock."""
        self.locks: tuple[ActingLock, ...] = ()
        if settings.addr is None:
            self._client = None
            return
        self._client = open_redis(settings)
        self.locks = tuple(
            ActingLock(
                name,
                RedisLock(
                    self._client,
                    f"jobqueue:{cluster}:lock:{name}",
                    ttl_s=settings.lock_ttl_ms / 1000,
                ),
                timeout_s=settings.connect_timeout_ms / 1000,
            )
            for name in (REAPER, SCHEDULER)
        )

    def under(self, name: str, duties: Sequence[Duty]) -> Sequence[Duty]:
        """Let the duties act by the lock of this name; return them."""
        for lock in self.locks:
            if lock.lock_name == name:
                lock.guard(duties)
                for duty in duties:
                    duty.only_while(lock.may_act)
        return duties

    def component(self) -> admin.ComponentStatus:
        """Return how Redis is."""
        if not self.locks:
            return component("redis", OFF, "redis.addr is not set; every server acts")
        causes = [f"{lock.lock_name}: {lock.cause}" for lock in self.locks if lock.cause]
        if causes:
            return component("redis", DEGRADED, "acting without the lock; " + "; ".join(causes))
        said = ", ".join(f"{lock.lock_name} {lock.state}" for lock in self.locks)
        return component("redis", OK, said)

    async def close(self) -> None:
        """Close the connections to Redis."""
        if self._client is not None:
            await self._client.aclose()


class LockLog:
    """Writes one line for each change of a lock's state."""

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        LOCK_CHANGED.subscribe(self._changed)

    def _changed(self, news: LockChanged) -> None:
        if news.state.acts_without:
            _log.warning("acting without the lock", lock=news.lock, cause=news.cause)
        elif news.state is LockState.STANDBY:
            _log.info("standing by: another server acts", lock=news.lock)
        elif news.held:
            _log.info("acting: this server holds the lock", lock=news.lock)
