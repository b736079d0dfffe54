"""Builds a worker from settings, and runs it or a family of them."""

import math
import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace

from jobqueue.config.dsn import database_dsn
from jobqueue.config.model import Settings
from jobqueue.domain.limits import Limits, name_faults
from jobqueue.domain.queue import DEFAULT_QUEUE
from jobqueue.domain.worker import WorkerFacts
from jobqueue.embedded.facts import read_dsn
from jobqueue.errors import Fault, SettingsError
from jobqueue.lease.direct import DirectLeases
from jobqueue.lease.interface import Leases
from jobqueue.lease.settings import LeaseSettings
from jobqueue.remote.leases import RemoteLeases
from jobqueue.runtime.collector import calm_collector
from jobqueue.runtime.log import get_logger, name_process
from jobqueue.runtime.shutdown import ShutdownSignals, SignalWatch, finishes_before
from jobqueue.runtime.structlogs import adopt_structlog
from jobqueue.runtime.version import version
from jobqueue.telemetry.metrics import WorkerMetrics
from jobqueue.transport import Route
from jobqueue.wiring.database import check_not_refused
from jobqueue.wiring.health import health_server
from jobqueue.wiring.metrics import MetricsDoor, worker_metrics
from jobqueue.wiring.options import EmbeddedChoice
from jobqueue.wiring.pod_cost import Listener, telling
from jobqueue.wiring.statement_log import trace_statements
from jobqueue.wiring.tracing import WorkerTraces, worker_traces
from jobqueue.wiring.worker_health import WorkerHealth
from jobqueue.wiring.worker_log import WorkerLog
from jobqueue.worker.board import Board
from jobqueue.worker.claiming import Room
from jobqueue.worker.executor import RunRules
from jobqueue.worker.registry import Registry, load_handlers
from jobqueue.worker.signals import PROCESS_ENDED
from jobqueue.worker.supervisor import supervise
from jobqueue.worker.worker import Worker, WorkerOptions

NO_TRACES = WorkerTraces()

_log = get_logger(__name__)

_HOST_LENGTH = 100
"""Of a host name in a worker id: the rest must fit into the longest allowed name."""


@dataclass(frozen=True, slots=True)
class WorkerChoice:
    """What the command line says beyond the settings."""

    worker_id: str | None = None
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    concurrency: int = 4
    embedded: EmbeddedChoice | None = None
    route: Route | None = None  # to the server of a remote worker
    tells: Listener | None = None  # who hears what runs here


def check_choice(choice: WorkerChoice) -> None:
    """Raise SettingsError for a name that cannot be one."""
    named = [("--queues", queue) for queue in choice.queues]
    if choice.worker_id is not None:
        named.append(("--worker-id", choice.worker_id))
    faults = [
        Fault(flag, f"{name!r} {violation.description}")
        for flag, name in named
        for violation in name_faults(flag, name, Limits())
    ]
    if not choice.queues:
        faults.append(Fault("--queues", "names no queue"))
    if faults:
        raise SettingsError(faults)


def build_registry(settings: Settings) -> Registry:
    """Import the handlers and join them with commands and shell. Raises SettingsError."""
    worker = settings.worker
    registry = load_handlers(worker.handlers, worker.commands, allow_shell=worker.allow_shell)
    if not registry.handlers:
        fault = "there is nothing to run: give handlers, worker.commands or worker.allow_shell"
        raise SettingsError([Fault("worker.handlers", fault)])
    return registry


def build_worker(
    settings: Settings,
    choice: WorkerChoice,
    registry: Registry,
    traces: WorkerTraces = NO_TRACES,
) -> Worker:
    """Return a worker that claims from PostgreSQL, or through a server; nothing is started yet.

    Call it on the running loop. Raises EmbeddedError when the embedded database is not running.
    """
    facts = WorkerFacts(
        worker_id=choice.worker_id or new_worker_id(),
        hostname=socket.gethostname(),
        pid=os.getpid(),
        queues=choice.queues,
        types=registry.types,
        concurrency=choice.concurrency,
        mode="remote" if choice.route else "direct",
        version=version(),
        prefetch=settings.worker.prefetch,
    )
    WorkerLog(worker_id=facts.worker_id).listen()
    leases = traces.leases(_leases(settings, choice, registry.types))
    followed = traces.followed(facts.worker_id)
    return Worker(leases, registry, facts, _options(settings, choice), followed)


def _leases(settings: Settings, choice: WorkerChoice, types: tuple[str, ...]) -> Leases:
    if choice.route is not None:
        return RemoteLeases(choice.route, types, stall_limit_s=settings.worker.stall_limit_s)
    dsn = _dsn(settings, choice)
    return DirectLeases(dsn, _lease_settings(settings), choice.queues, types)


async def work(
    settings: Settings, choice: WorkerChoice, registry: Registry, probed: socket.socket
) -> int:
    """Run one worker until it is told to end; return its exit code.

    Probes are answered on the socket ``probed``. Raises Internal when the database answers and
    refuses, Unavailable when a port is taken, SettingsError for traces that cannot be exported.
    """
    named = replace(choice, worker_id=choice.worker_id or new_worker_id())
    name_process(worker_id=named.worker_id)
    adopt_structlog()
    trace_statements(settings.logging)
    health = WorkerHealth()
    health.listen()
    probes = health_server(health.look, settings.health.port)
    metrics = worker_metrics(choice.queues)
    door = MetricsDoor(metrics, settings)
    with ShutdownSignals() as asked:
        async with AsyncExitStack() as running:
            _log.info("probes are answered", health_port=await probes.start(probed))
            running.push_async_callback(probes.stop)
            await door.start()
            running.push_async_callback(door.stop)
            watch = SignalWatch(asked)
            await watch.start()
            running.push_async_callback(watch.stop, 0.0)
            return await _work(settings, named, registry, metrics, asked)


async def _work(
    settings: Settings,
    choice: WorkerChoice,
    registry: Registry,
    metrics: WorkerMetrics,
    asked: ShutdownSignals,
) -> int:
    if choice.route is None:
        look = check_not_refused(settings.db, _dsn(settings, choice))
        # Told to end meanwhile, the worker sees that by itself.
        await finishes_before(asked.shutdown, look)
    async with worker_traces(settings, asked.hurry) as traces:
        worker = build_worker(settings, choice, registry, traces)
        metrics.watch(worker.worker_id, lambda: worker.running)
        calm_collector()
        async with telling(choice.tells, settings.worker, lambda: worker.load, asked):
            return await worker.run(asked)


async def work_in_processes(
    settings: Settings,
    choice: WorkerChoice,
    commands: Sequence[Sequence[str]],
    board: Board | None,
) -> int:
    """Run a worker process per command until all have ended; return the exit code.

    They report to the ``board`` where there is one.
    """
    WorkerLog().listen()
    with ShutdownSignals() as asked:
        if board is None:
            return await supervise(commands, asked)
        PROCESS_ENDED.subscribe(lambda news: board.forget(news.pid))
        async with telling(choice.tells, settings.worker, board.load, asked):
            return await supervise(commands, asked, (board.fd,))


def _dsn(settings: Settings, choice: WorkerChoice) -> str:
    embedded = choice.embedded
    return read_dsn(embedded.folder()) if embedded else database_dsn(settings.db)


def new_worker_id() -> str:
    """Return a name that no other start of a worker has: host, process, random."""
    host = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in _host())
    return f"{host[:_HOST_LENGTH]}-{os.getpid()}-{secrets.token_hex(4)}"


def _host() -> str:
    return socket.gethostname() or "localhost"


def _lease_settings(settings: Settings) -> LeaseSettings:
    return LeaseSettings(
        lease_s=settings.lease.duration_s,
        renew_interval_s=settings.lease.renew_interval_s,
        heartbeat_interval_s=settings.worker.heartbeat_interval_s,
        stall_limit_s=settings.worker.stall_limit_s,
        connect_timeout_s=settings.db.connect_timeout_ms / 1000,
        pgbouncer=settings.db.pgbouncer,
    )


def _options(settings: Settings, choice: WorkerChoice) -> WorkerOptions:
    worker = settings.worker
    own_hold_s = settings.scheduler.assignment_timeout_s / 2
    room = Room(
        concurrency=choice.concurrency,
        prefetch=worker.prefetch,
        hold_s=math.inf if choice.route else own_hold_s,  # a server tells its own
        stall_limit_s=worker.stall_limit_s,
    )
    rules = RunRules(
        default_timeout_s=worker.default_timeout_s or None,
        kill_grace_s=worker.kill_grace_s,
        limits=Limits(**asdict(settings.limits)),
    )
    return WorkerOptions(room, rules, worker.shutdown_grace_period_s)
