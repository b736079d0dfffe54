"""What a server has for remote workers: the desk, its listener, and the service."""

from collections.abc import Callable, Iterable
from functools import partial

from jobqueue.config.model import Settings
from jobqueue.domain.limits import Limits
from jobqueue.lease.desk import Desk
from jobqueue.lease.hot import HotConnection
from jobqueue.rpc.sessions import Sessions
from jobqueue.rpc.worker_service import WorkerService, WorkerTimes
from jobqueue.runtime.service import Service
from jobqueue.store.pool import Pool, connect
from jobqueue.store.wakeups import Listener


class RemoteDoor:
    """WorkerService with what stands behind it. Leases are as long as those of direct workers."""

    def __init__(
        self,
        settings: Settings,
        dsn: str,
        pool: Pool,
        limits: Limits,
        session_key: bytes,
        announce: Callable[[Iterable[str]], None],
    ) -> None:
        """``announce`` gets the queues with jobs that were handed back; it must not block."""
        self._desk = Desk(
            pool,
            reserve=_reserve(settings, dsn),
            lease_s=settings.lease.duration_s,
            claimers=settings.db.pool_size,
            announce=announce,
        )
        self.service = WorkerService(self._desk, Sessions(session_key), _times(settings), limits)
        self.loops = _listener(settings, dsn, self._desk)

    async def close(self) -> None:
        """Wait until what was under way to workers is handed back. No call comes any more."""
        await self._desk.close()


def _reserve(settings: Settings, dsn: str) -> HotConnection:
    """Return the connection of heartbeats that find no room in the pool; the first opens it."""
    db = settings.db
    opening = partial(
        connect,
        dsn,
        connect_timeout_s=db.connect_timeout_ms / 1000,
        pgbouncer=db.pgbouncer,
        application_name="jq-server-beats",
    )
    return HotConnection(opening, timeout_s=settings.lease.duration_s / 4)


def _listener(settings: Settings, dsn: str, desk: Desk) -> tuple[Service, ...]:
    """Return the one listener of all remote workers, for while there are any.

    Behind PgBouncer they poll.
    """
    db = settings.db
    if db.pgbouncer:
        return ()
    listener = Listener(
        dsn,
        desk.hinted,
        connect_timeout_s=db.connect_timeout_ms / 1000,
        application_name="jq-server-listener",
        needed=lambda: desk.streaming,
    )
    desk.on_stream(listener.wake)
    return (listener,)


def _times(settings: Settings) -> WorkerTimes:
    return WorkerTimes(
        settings.lease.duration_s,
        settings.lease.renew_interval_s,
        settings.worker.heartbeat_interval_s,
        settings.scheduler.assignment_timeout_s,
    )
