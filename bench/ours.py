"""jobqueue as a contestant: its server, its worker, and the ways to submit."""

import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from bench.processes import Launch, module
from bench.systems import QUEUE, Probes
from jobqueue.domain.queue import QueuePolicy
from jobqueue.runtime.version import version_line
from jobqueue.store.migrate import migrate
from jobqueue.store.queues import create_queue
from jobqueue.worker.claiming import Room

HANDLERS = "bench.programs.handlers"
SUBMISSION, CLIENT, MESSAGES = "submission", "client", "messages"
"""Ways to submit: in process; by the client library; by gRPC messages that were made before."""

MANY_SLOTS = 8000
"""Of the worker whose drain is fastest; claims and ends are of a quarter of them."""

_FREE_PORTS = {"JQ_HEALTH_PORT": "0", "JQ_METRICS_PORT": "0", "JQ_GRPC_PORT": "0"}
_PROBES = Probes(
    taken="SELECT EXISTS (SELECT FROM jobqueue.leases) OR EXISTS (SELECT FROM jobqueue.finished)",
    # The newest job goes last, or nearly so: until then nobody looks among dead rows.
    empty="SELECT NOT EXISTS (SELECT FROM jobqueue.ready r"
    " WHERE r.id = (SELECT max(j.id) FROM jobqueue.jobs j))"
    " AND NOT EXISTS (SELECT FROM jobqueue.leases) AND NOT EXISTS (SELECT FROM jobqueue.ready)",
    left="SELECT (SELECT count(*) FROM jobqueue.ready) + (SELECT count(*) FROM jobqueue.leases)"
    " + (SELECT count(*) FROM jobqueue.scheduled)",
    # Each claimed job draws a token; as many as there are slots may be under way.
    done="SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM jobqueue.lease_token_seq",
)


@dataclass(frozen=True, slots=True)
class Ours:
    """A direct `jq-worker`, with async handlers and events, as it is installed."""

    name: str = "jobqueue"
    concurrency: int = 100
    keeps: str = "job, outcome, 4 events"
    probes: Probes = _PROBES
    slow: bool = False
    volatile: tuple[str, ...] = ()

    @property
    def batch(self) -> int:
        """How many jobs a statement carries."""
        return Room(self.concurrency).wave

    @property
    def tuning(self) -> str:
        """The flags."""
        return f"--concurrency {self.concurrency}"

    async def install(self, _cache: Path) -> str:
        """Do nothing: it runs from the checkout."""
        return version_line()

    async def prepare(self, dsn: str) -> None:
        """Migrate and make the queue, as jq-server does at its start."""
        await migrate(dsn)
        await add_queue(dsn, QUEUE)

    def submitter(self, dsn: str) -> Launch:
        """Submit in process: what an application pays that uses the library on its database."""
        return module("bench.programs.submit", SUBMISSION, dsn)

    def workers(self, dsn: str, processes: int) -> Sequence[Launch]:
        """One `jq-worker` with so many processes."""
        flags = ("--concurrency", str(self.concurrency), "--processes", str(processes))
        return [worker(dsn, *flags)]


def worker(dsn: str, *flags: str, **settings: object) -> Launch:
    """Return a `jq-worker` that claims from a database."""
    argv = (script("jq-worker"), "--handlers", HANDLERS, "--log-level", "warn", *flags)
    return Launch(argv, _FREE_PORTS | {"JQ_DB_URL": dsn} | variables(**settings))


def remote_worker(address: str, *flags: str, **settings: object) -> Launch:
    """Return a `jq-worker` that knows only a server."""
    argv = (script("jq-worker"), "--handlers", HANDLERS, "--log-level", "warn", *flags)
    return Launch(argv, _FREE_PORTS | {"JQ_SERVER_ADDR": address} | variables(**settings))


def server(dsn: str, **settings: object) -> Launch:
    """Return a `jq-server` on free ports; its line that says "ready" tells which."""
    env = _FREE_PORTS | {"JQ_DB_URL": dsn} | variables(**settings)
    return Launch((script("jq-server"),), env)


def variables(**settings: object) -> dict[str, str]:
    """Return settings as environment variables: ``lease_duration_s=3``."""
    return {f"JQ_{name.upper()}": str(value) for name, value in settings.items()}


def script(name: str) -> str:
    """Return the path of one of our programs."""
    return str(Path(sysconfig.get_path("scripts")) / name)


async def add_queue(dsn: str, name: str, **policy: object) -> None:
    """Make a queue in a migrated database."""
    connection = await asyncpg.connect(dsn)
    try:
        await create_queue(connection, name, QueuePolicy(**policy))  # type: ignore[arg-type]
    finally:
        await connection.close()
