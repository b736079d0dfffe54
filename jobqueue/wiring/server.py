"""Builds the control plane and holds the order of its start and its end (R-4.9)."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass, field

from jobqueue.config.model import Settings
from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.limits import Limits
from jobqueue.domain.queue import QueuePolicy
from jobqueue.errors import FailedPrecondition
from jobqueue.events.parking import Parking
from jobqueue.events.tail import Tail
from jobqueue.reaper.duty import Duty
from jobqueue.reaper.expirer import assignment_timeout, expirer
from jobqueue.reaper.scheduler import Promoter, TtlExpirer
from jobqueue.reaper.upkeep import EventRoom, event_upkeep, upkeep
from jobqueue.rpc.admin_service import AdminService, ServerFacts
from jobqueue.rpc.event_service import EventService
from jobqueue.rpc.job_service import JobService
from jobqueue.rpc.server import RpcServer, Services
from jobqueue.runtime.log import get_logger
from jobqueue.runtime.service import Group, Service
from jobqueue.runtime.shutdown import ends_before, finishes_before
from jobqueue.runtime.version import commit, version
from jobqueue.store.migrate import migrate, schema_revision
from jobqueue.store.pool import Pool, create_pool
from jobqueue.store.upkeep import events_have_room
from jobqueue.submission.announcer import Announcer
from jobqueue.submission.doctor import Doctor
from jobqueue.submission.figures import FigureReader
from jobqueue.submission.jobs import Jobs
from jobqueue.submission.queues import Queues
from jobqueue.submission.submitter import Submitter
from jobqueue.submission.system import System
from jobqueue.submission.workers import Workers
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.wiring.coordination import REAPER, SCHEDULER, Coordination
from jobqueue.wiring.database import await_database
from jobqueue.wiring.desk import RemoteDoor
from jobqueue.wiring.events import EventRelay
from jobqueue.wiring.protection import Doorkeeping
from jobqueue.wiring.scaler import ScalerDoor
from jobqueue.wiring.tracing import ServerTraces

_DAY_S = 86_400.0
_CALLS_SHARE = 0.75
"""Of the grace, what calls under way may take; the rest is for flushes, loops and pool."""
_FORCE_SHARE, _FORCE_LIMIT_S = 0.25, 2.0
"""Of the grace, at most so much is kept back for ending by force what does not end in time."""

NO_TRACES = ServerTraces()
_log = get_logger(__name__)


class Server:
    """The control plane on one database. ``start``, then ``stop``; nothing outlives it."""

    def __init__(self, settings: Settings, dsn: str, traces: ServerTraces = NO_TRACES) -> None:
        """Read the certificates, if any. Raises SettingsError when they cannot be served."""
        self._settings = settings
        self._dsn = dsn
        self._traces = traces
        self._door = Doorkeeping(settings)
        self._parts: _Parts | None = None

    async def start(self) -> int:
        """Wait for the database, migrate, begin to serve, and return the gRPC port.

        Raises Unavailable when the database or the port cannot be had; nothing is left behind.
        """
        db = self._settings.db
        await await_database(db, self._dsn)
        await migrate(self._dsn)
        pool = await create_pool(
            self._dsn,
            size=db.pool_size,
            connect_timeout_s=db.connect_timeout_ms / 1000,
            pgbouncer=db.pgbouncer,
            application_name="jq-server",
        )
        try:
            cluster = await System(pool).identity()
            key = await Workers(pool).session_key()
            base = _Base(self._settings, self._dsn, pool, cluster, key, self._door, self._traces)
            self._parts = _Parts(base)
            return await self._parts.start()
        except BaseException:
            await self.stop(grace_s=0.0)
            pool.terminate()
            raise

    @property
    def serving(self) -> bool:
        """True while the gRPC port is open."""
        return self._parts is not None and self._parts.serving

    async def check(self) -> None:
        """Raise an error of ours unless the database answers and has the schema (R-7.4)."""
        if self._parts is not None:
            await self._parts.check()

    def helpers(self) -> Sequence[admin.ComponentStatus]:
        """Return how Redis and Kafka are."""
        return self._parts.helpers() if self._parts is not None else ()

    async def stop(self, grace_s: float | None = None, hurry: asyncio.Event | None = None) -> None:
        """End in order within ``grace_s`` (default: the setting), or at once on ``hurry``."""
        parts, self._parts = self._parts, None
        if parts is None:
            return
        whole = self._settings.server.shutdown_grace_period_s if grace_s is None else grace_s
        await parts.stop(whole, hurry or asyncio.Event())


@dataclass(frozen=True, slots=True)
class _Base:
    """What the parts are made of."""

    settings: Settings
    dsn: str
    pool: Pool
    cluster: str
    session_key: bytes = field(repr=False)
    door: Doorkeeping
    traces: ServerTraces


class _Parts:
    """What lives between start and stop."""

    def __init__(self, base: _Base) -> None:
        settings, dsn, pool, door = base.settings, base.dsn, base.pool, base.door
        db, limits = settings.db, Limits(**asdict(settings.limits))
        self._pool = pool
        announcer = Announcer(
            dsn, connect_timeout_s=db.connect_timeout_ms / 1000, pgbouncer=db.pgbouncer
        )
        self._coordination = Coordination(settings.redis, base.cluster)
        duties = _duties(settings, pool, self._coordination)
        self._room = EventRoom(pool)
        self._events = EventRelay(settings, pool)
        self._remote = RemoteDoor(settings, dsn, pool, limits, base.session_key, announcer.announce)
        figures = FigureReader(pool)
        self._scaler = ScalerDoor(settings, limits, door, figures.hurry)
        self._loops = Group(
            [
                announcer,
                *self._coordination.locks,
                *duties,
                self._room,
                *self._events.loops,
                *door.loops,
                *self._remote.loops,
                figures,
            ]
        )
        self._submitter = Submitter(pool, limits, announcer.announce, announcer.ride)
        self._queues = Queues(pool, limits, _defaults(settings), announcer.announce)
        facts = ServerFacts(version(), commit(), self._loops.services, self.helpers)
        doctor = Doctor(pool, event_retention_s=_event_retention_s(settings))
        services = Services(
            JobService(
                base.traces.submitter(self._submitter), Jobs(pool, announcer.announce), limits
            ),
            AdminService(self._queues, Workers(pool), System(pool), doctor, limits, facts),
            self._remote.service,
            EventService(Tail(pool), Parking(pool), limits),
        )
        self._rpc = RpcServer(
            services,
            port=settings.grpc.port,
            message_bytes=limits.message_bytes,
            protection=door.protection,
            inner=base.traces.inner,
        )

    async def start(self) -> int:
        """Loops first, the door last: a call finds everything in place."""
        await self._queues.ensure_default()
        self._scaler.listen()
        await self._loops.start_all()
        await self._scaler.start()
        return await self._rpc.start()

    async def stop(self, grace_s: float, hurry: asyncio.Event) -> None:
        """Doors, calls, flushes, loops, pool: each after those that need it."""
        budget = _Budget(grace_s, hurry)
        await self._scaler.drain()
        await self._rpc.drain()
        await budget.spend(self._scaler.stop())
        await budget.spend(self._rpc.stop(budget.left() * _CALLS_SHARE))
        await self._rpc.stop(0)
        await budget.spend(self._submitter.close())
        await budget.spend(self._remote.close())
        await finishes_before(hurry, self._loops.stop_all(budget.left()))
        await self._loops.stop_all(0.0)
        await budget.spend(self._coordination.close())
        await budget.spend(self._pool.close())
        self._pool.terminate()

    @property
    def serving(self) -> bool:
        """True while the gRPC port is open."""
        return self._rpc.serving

    async def check(self) -> None:
        """Raise unless the database can be worked on."""
        if await schema_revision(self._pool) is None:
            raise FailedPrecondition("the database is not migrated", reason="NOT_MIGRATED")
        if not await events_have_room(self._pool):
            self._room.wake()
            raise FailedPrecondition("events soon have no partition", reason="NO_PARTITION")

    def helpers(self) -> Sequence[admin.ComponentStatus]:
        """Return how Redis and Kafka are."""
        return [self._coordination.component(), self._events.component()]


class _Budget:
    """What is left of the grace; nothing once somebody is in a hurry."""

    def __init__(self, grace_s: float, hurry: asyncio.Event) -> None:
        self._clock = asyncio.get_running_loop().time
        kept_back_s = min(_FORCE_SHARE * grace_s, _FORCE_LIMIT_S)
        self._deadline = self._clock() + grace_s - kept_back_s
        self._hurry = hurry

    def left(self) -> float:
        """Return the seconds that are left."""
        return 0.0 if self._hurry.is_set() else max(self._deadline - self._clock(), 0.0)

    async def spend(self, step: Coroutine[object, object, None]) -> None:
        """Do a step for as long as there is time; what fails must not keep the rest from ending."""
        try:
            await ends_before(self._hurry, step, self.left())
        except Exception as error:  # noqa: BLE001 - the next steps must still be done
            _log.error("a step of the shutdown failed", error=error)


def _duties(settings: Settings, pool: Pool, coordination: Coordination) -> tuple[Service, ...]:
    """Return the loops of reaper and scheduler."""
    return (
        *coordination.under(REAPER, _reaping(settings, pool)),
        *coordination.under(SCHEDULER, _scheduling(settings, pool)),
        *event_upkeep(pool, event_retention_s=_event_retention_s(settings)),
    )


def _event_retention_s(settings: Settings) -> float:
    return settings.reaper.event_retention_days * _DAY_S


def _reaping(settings: Settings, pool: Pool) -> tuple[Duty, ...]:
    reaper, scheduler = settings.reaper, settings.scheduler
    return (
        expirer(
            pool,
            interval_s=reaper.interval_ms / 1000,
            batch_size=reaper.batch_size,
            crash_limit=reaper.crash_limit,
        ),
        assignment_timeout(
            pool,
            timeout_s=scheduler.assignment_timeout_s,
            batch_size=reaper.batch_size,
            crash_limit=reaper.crash_limit,
        ),
        *upkeep(
            pool,
            heartbeat_timeout_s=scheduler.worker_heartbeat_timeout_s,
            done_retention_s=reaper.done_retention_days * _DAY_S,
        ),
    )


def _scheduling(settings: Settings, pool: Pool) -> tuple[Duty, ...]:
    due_s, batch_size = settings.scheduler.interval_ms / 1000, settings.scheduler.batch_size
    return (
        Promoter(pool, interval_s=due_s, batch_size=batch_size),
        TtlExpirer(pool, interval_s=due_s, batch_size=batch_size),
    )


def _defaults(settings: Settings) -> QueuePolicy:
    """Return the policy of a queue that names none of its own."""
    retry = settings.retry
    backoff = RetryPolicy(retry.base_delay_s, retry.max_delay_s, retry.multiplier)
    return QueuePolicy(max_retries=retry.max_retries, retry=backoff)


def unused_features(settings: Settings) -> list[str]:
    """Return a line about each service that is off."""
    lines = [] if settings.redis.addr else ["redis: off"]
    return lines if settings.kafka.brokers else [*lines, "kafka: off"]
