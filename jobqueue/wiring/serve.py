"""What `jq-server` does: serve, migrate, check. Errors are raised; the program prints them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from jobqueue.config.dsn import database_dsn
from jobqueue.config.model import Settings
from jobqueue.coordination.redis_lock import check_redis
from jobqueue.embedded.facts import read_dsn, read_facts
from jobqueue.embedded.folder import is_held
from jobqueue.errors import Fault, JobQueueError, SettingsError
from jobqueue.events.publisher import check_kafka, check_options
from jobqueue.runtime.collector import calm_collector
from jobqueue.runtime.log import get_logger
from jobqueue.runtime.ports import check_port
from jobqueue.runtime.shutdown import ShutdownSignals, finishes_before
from jobqueue.store.migrate import head, knows, migrate, schema_revision
from jobqueue.store.pool import create_pool
from jobqueue.submission.system import System
from jobqueue.wiring.coordination import LockLog
from jobqueue.wiring.database import DatabaseRevival, await_database, start_embedded
from jobqueue.wiring.events import RelayLog
from jobqueue.wiring.health import health_server
from jobqueue.wiring.metrics import MetricsDoor
from jobqueue.wiring.options import EmbeddedChoice
from jobqueue.wiring.protection import Doorkeeping
from jobqueue.wiring.server import Server, unused_features
from jobqueue.wiring.server_health import ServerHealth
from jobqueue.wiring.server_metrics import server_metrics
from jobqueue.wiring.statement_log import trace_statements
from jobqueue.wiring.tracing import server_traces, traces_line

_log = get_logger(__name__)


async def serve(settings: Settings, embedded: EmbeddedChoice | None = None) -> None:
    """Serve until SIGTERM or SIGINT; a second signal cuts the grace short.

    Raises SettingsError, EmbeddedError or Unavailable when the server cannot start.
    """
    for line in check_settings(settings):
        _log.info(line)
    check_port("grpc.port", settings.grpc.port)
    check_port("scaler.port", settings.scaler.port)
    LockLog().listen()
    RelayLog().listen()
    trace_statements(settings.logging)
    health = ServerHealth()
    with ShutdownSignals() as asked:
        async with AsyncExitStack() as running:
            # First up, last down: probes and metrics tell of the start and of the end too.
            await _open_health(settings, health, running)
            await _open_metrics(settings, running)
            starting = _start(settings, embedded, running, asked.hurry, health)
            if await finishes_before(asked.shutdown, starting):
                await asked.shutdown.wait()
            health.draining = True
            _log.info("shutting down")
        _log.info("stopped")


async def _start(
    settings: Settings,
    embedded: EmbeddedChoice | None,
    running: AsyncExitStack,
    hurry: asyncio.Event,
    health: ServerHealth,
) -> None:
    dsn = await running.enter_async_context(_database(settings, embedded))
    traces = await running.enter_async_context(server_traces(settings, hurry))
    server = Server(settings, dsn, traces)
    port = await server.start()
    grace_s = settings.server.shutdown_grace_period_s - traces.export_s
    running.push_async_callback(server.stop, grace_s, hurry=hurry)
    health.server = server
    await health.readiness.start()
    running.push_async_callback(health.readiness.stop, 0.0)  # a look may be broken off
    calm_collector()
    _log.info("ready", grpc_port=port)


async def _open_health(settings: Settings, health: ServerHealth, running: AsyncExitStack) -> None:
    door = health_server(health.look, settings.health.port)
    _log.info("probes are answered", health_port=await door.start())
    running.push_async_callback(door.stop)


async def _open_metrics(settings: Settings, running: AsyncExitStack) -> None:
    door = MetricsDoor(server_metrics(settings), settings)
    await door.start()
    running.push_async_callback(door.stop)


async def migrate_only(
    settings: Settings, revision: str, embedded: EmbeddedChoice | None = None
) -> None:
    """Bring the schema to ``revision``. Raises SettingsError, EmbeddedError or Unavailable."""
    if revision not in {"head", "base"} and not knows(revision):
        fault = f"{revision!r} is not known to this version; the newest is {head()}"
        raise SettingsError([Fault("--revision", fault)])
    async with _database(settings, embedded) as dsn:
        await await_database(settings.db, dsn)
        await migrate(dsn, revision)


def check_settings(settings: Settings) -> list[str]:
    """Return a line for each feature that may be on or off. Raises SettingsError."""
    if settings.kafka.brokers:
        check_options(settings.kafka)
    return [*Doorkeeping(settings).lines(), traces_line(settings), *unused_features(settings)]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of one service found: a line about it, or why it cannot be used."""

    service: str
    line: str = ""
    error: JobQueueError | None = None


async def check_services(
    settings: Settings, embedded: EmbeddedChoice | None = None
) -> list[Checked]:
    """Try every service that is configured, whatever became of the others. Starts nothing."""
    found = [await _checked("postgresql", _check_database(settings, embedded))]
    if settings.redis.addr:
        found.append(await _checked("redis", check_redis(settings.redis)))
    if settings.kafka.brokers:
        found.append(await _checked("kafka", check_kafka(settings.kafka)))
    return found


async def _checked(service: str, check: Awaitable[str]) -> Checked:
    try:
        return Checked(service, await check)
    except JobQueueError as error:
        return Checked(service, error=error)


async def _check_database(settings: Settings, embedded: EmbeddedChoice | None) -> str:
    if embedded is None:
        return await _look(settings, database_dsn(settings.db))
    folder = embedded.folder()
    # Who was killed leaves facts, and no lock.
    if read_facts(folder) is None or not is_held(folder):
        return f"embedded in {folder}, not running; it would be started"
    return await _look(settings, read_dsn(folder))


async def _look(settings: Settings, dsn: str) -> str:
    db = settings.db
    pool = await create_pool(
        dsn, size=1, connect_timeout_s=db.connect_timeout_ms / 1000, pgbouncer=db.pgbouncer
    )
    try:
        server = await System(pool).database()
        revision = await schema_revision(pool)
    finally:
        await pool.close()
    schema = f"schema at {revision}" if revision else "never migrated"
    return f"PostgreSQL {server}, {schema}; this version brings {head()}"


@asynccontextmanager
async def _database(settings: Settings, embedded: EmbeddedChoice | None) -> AsyncIterator[str]:
    """Yield the DSN, running the private PostgreSQL meanwhile when that was chosen."""
    if embedded is None:
        yield database_dsn(settings.db)
        return
    database = await start_embedded(embedded)
    revival = DatabaseRevival(database)
    try:
        await revival.start()
        yield database.dsn
    finally:
        await revival.stop()
        await asyncio.to_thread(database.stop)
