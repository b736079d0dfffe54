"""Everything a jobqueue needs, as real processes on this machine, each of which may fall.

Programs are started again when they end, as an orchestrator would; servers keep their ports.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from jobqueue.embedded.facts import read_facts
from jobqueue.embedded.server import EmbeddedPostgres
from tests.chaos.history import NOTES
from tests.chaos.network import Far, Link, to_port, to_socket
from tests.support.kafka import Broker, running_broker
from tests.support.programs import Program, RemoteWorkerProgram, ServerProgram, WorkerProgram
from tests.support.redis import RedisServer, free_port

LEASE_S, LOCK_S = 2.0, 2.0
_ASKED = (signal.SIGINT, signal.SIGTERM)
QUEUES = ("work", "narrow")
NARROW_LIMIT = 3
SHELF = "shelf"
"""A queue that nobody serves: its jobs end with their time to live."""

BACKOFF_S = 0.2
TOPIC = "chaos.events"
OURS, PROGRAMS = "chaos", "postgres"
"""Who looks at the database for a run, and by sessions of what name; as whom programs log in."""

SETTINGS = {
    "lease_duration_s": LEASE_S,
    "lease_renew_interval_s": 0.6,
    "worker_heartbeat_interval_s": 0.5,
    "worker_kill_grace_s": 0.5,
    "worker_shutdown_grace_period_s": 3,
    "worker_stall_limit_s": 20,
    "reaper_interval_ms": 200,
    "scheduler_interval_ms": 200,
    "scheduler_assignment_timeout_s": 5,
    "redis_lock_ttl_ms": round(1_000 * LOCK_S),
    "server_shutdown_grace_period_s": 5,
}


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part beside two servers, and what programs are told."""

    workers: int = 3
    remotes: int = 2
    handlers: str = "tests.chaos.work"
    flags: tuple[str, ...] = ()
    """For workers, beside those that everyone gets."""
    settings: Mapping[str, object] = field(default_factory=lambda: SETTINGS)
    servers: Callable[[], Mapping[str, object]] = dict
    """Settings of one server alone, such as a port of its own."""


CHAOS = Cast()
_POSTGRES = {
    # Processes are killed here, not machines: what was written stays without fsync.
    "fsync": "off",
    "max_connections": "80",
    "log_line_prefix": "%m [%p %u %a %e] ",  # who was told which SQLSTATE
}
_WATCH_S = 0.05


@dataclass
class Slot:
    """A place for a program, and the program that is there now."""

    name: str
    start: Callable[[], Program]
    program: Program
    armed: Program | None = None
    """The last one that was started with an accident of its own."""
    resting: bool = False
    """Whether it is not started again for now."""
    ends: Counter[int] = field(default_factory=Counter)
    """How often its programs ended, by exit code."""

    @property
    def pid(self) -> int:
        """Of the program that is there now."""
        return self.program.process.pid

    def clear(self) -> None:
        """Kill the program that is there now."""
        self.program.kill()


class System:
    """Two servers, workers on the database and behind the servers, and all they need."""

    def __init__(self, folder: Path, cast: Cast = CHAOS) -> None:
        self.folder = folder
        self.cast = cast
        self.links: dict[str, Link] = {}
        """The network, by what lies before or behind each stretch.

        Each server and each worker on the database has one to PostgreSQL, ``grpc-N`` leads to a
        server, for callers and remote workers, ``redis`` and ``kafka`` from both servers there.
        """
        self.notes = _made(folder / "notes")
        self._logs = _made(folder / "logs")
        self._named: Counter[str] = Counter()
        self._arms: dict[str, str] = {}
        self._stopping = threading.Event()
        os.environ[NOTES] = str(self.notes)
        with contextlib.ExitStack() as started:
            self._surround(started)
            self.slots = self._fill(started)
            self._closing = started.pop_all()
        self._watch = threading.Thread(target=self._restart_what_ends, daemon=True)
        self._watch.start()

    def _surround(self, started: contextlib.ExitStack) -> None:
        """Start what the programs need."""
        self.postgres = EmbeddedPostgres(self.folder / "pg", settings=_POSTGRES)
        started.enter_context(self.postgres)
        asyncio.run(_add_our_role(self.postgres.dsn))
        self.redis = RedisServer(_made(self.folder / "redis"))
        started.callback(self.redis.kill)
        self.broker: Broker = started.enter_context(running_broker())
        self._ports = [free_port(), free_port()]
        self._link(started)
        self.broker.create_topic(TOPIC)

    def _link(self, started: contextlib.ExitStack) -> None:
        """Lay the network between them, and in front of the servers."""

        def link(name: str, far: Far, port: int = 0) -> None:
            self.links[name] = made = Link(far, port=port)
            started.callback(made.close)

        facts = read_facts(self.postgres.data_dir)
        assert facts is not None
        socket = to_socket(str(facts.socket_path))
        for i, port in enumerate(self._ports):
            link(f"server-{i}", socket)
            link(f"grpc-{i}", to_port(port))
        for i in range(self.cast.workers):
            link(f"worker-{i}", socket)
        link("redis", to_port(self.redis.port))
        link("kafka", to_port(self.broker.port), self.broker.advertised)

    def _fill(self, started: contextlib.ExitStack) -> dict[str, Slot]:
        """Start the programs: servers first, they make the schema."""

        def slot(name: str, start: Callable[[], Program]) -> Slot:
            made = Slot(name, start, start())
            started.callback(made.clear)
            return made

        servers = [slot(f"server-{i}", partial(self._server, i)) for i in range(len(self._ports))]
        for server in servers:
            server.program.ready()
        workers = [slot(f"worker-{i}", partial(self._worker, i)) for i in range(self.cast.workers)]
        remotes = [slot(f"remote-{i}", partial(self._remote, i)) for i in range(self.cast.remotes)]
        return {each.name: each for each in (*servers, *workers, *remotes)}

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[asyncpg.Connection]:
        """Lend a connection that no accident to the programs' sessions concerns."""
        connection = await asyncpg.connect(
            self.postgres.dsn,
            user=OURS,
            timeout=10.0,
            server_settings={"application_name": OURS},
        )
        try:
            yield connection
        finally:
            await connection.close()

    @property
    def addresses(self) -> list[str]:
        """Where the servers are."""
        return [f"127.0.0.1:{port}" for port in self._ports]

    @property
    def doors(self) -> list[str]:
        """Where callers find them, through a link each."""
        return [self.links[f"grpc-{i}"].address for i in range(len(self._ports))]

    def _dsn(self, slot: str) -> str:
        return f"postgresql://{PROGRAMS}@{self.links[slot].address}/jobqueue"

    def _server(self, i: int) -> Program:
        return ServerProgram(
            self._dsn(f"server-{i}"),
            self._logs,
            "--grpc-port",
            str(self._ports[i]),
            redis_addr=self.links["redis"].address,
            kafka_brokers=self.broker.address,
            kafka_topic=TOPIC,
            **self._armed(f"server-{i}"),
            **self.cast.settings,
            **self.cast.servers(),
        )

    def _worker(self, i: int) -> Program:
        armed = self._armed(f"worker-{i}")
        dsn = self._dsn(f"worker-{i}")
        flags = self._flags(f"worker-{i}")
        return WorkerProgram(dsn, self._logs, *flags, **armed, **self.cast.settings)

    def _remote(self, i: int) -> Program:
        first = i % len(self.doors)
        address = f"ipv4:{','.join(self.doors[first:] + self.doors[:first])}"
        flags = (*self._flags(f"remote-{i}"), "--prefetch", "4")
        return RemoteWorkerProgram(address, self._logs, *flags, **self.cast.settings)

    def _flags(self, slot: str) -> tuple[str, ...]:
        handlers = ("--handlers", self.cast.handlers, *self.cast.flags)
        return (*_FLAGS, *handlers, "--worker-id", self._next_name(slot))

    def arm(self, slot: str, seam: str) -> None:
        """Let the next program of a slot meet this accident, and the ones after it none."""
        self.slots[slot].armed = None
        self._arms[slot] = seam

    def _armed(self, slot: str) -> dict[str, str]:
        seam = self._arms.pop(slot, None)
        return {"seams": seam} if seam else {}

    def _next_name(self, slot: str) -> str:
        """Name the next worker of a slot; no two ever have one name."""
        self._named[slot] += 1
        return f"{slot}.{self._named[slot]}"

    def worker_name(self, slot: str) -> str:
        """Return the name of the worker that is there now."""
        return f"{slot}.{self._named[slot]}"

    def _restart_what_ends(self) -> None:
        while not self._stopping.wait(_WATCH_S):
            for slot in list(self.slots.values()):
                code = slot.program.process.poll()
                if code is not None and not slot.resting:
                    slot.ends[code] += 1
                    armed = slot.name in self._arms
                    slot.program = slot.start()
                    slot.armed = slot.program if armed else slot.armed

    def children(self, slot: str, module: str) -> list[psutil.Process]:
        """Return the processes of a program that run a module."""
        try:
            family = psutil.Process(self.slots[slot].pid).children(recursive=True)
            return [each for each in family if module in " ".join(each.cmdline())]
        except psutil.Error:
            return []

    def ends(self) -> Counter[str]:
        """Return how often programs ended, by kind and exit code."""
        return Counter(
            f"{slot.name.partition('-')[0]} {code}"
            for slot in self.slots.values()
            for code in slot.ends.elements()
        )

    def errors(self) -> Counter[str]:
        """Return what programs logged as errors."""
        lines = (
            json.loads(text)
            for path in self._logs.glob("*.log")
            for text in path.read_text(encoding="utf-8", errors="replace").splitlines()
            if '"level": "error"' in text
        )
        return Counter(_told(line) for line in lines)

    def postgres_log(self, start: int = 0) -> str:
        """Return what PostgreSQL has written since it was started, from a byte on."""
        with (self.postgres.data_dir / "postgres.log").open("rb") as log:
            log.seek(start)
            return log.read().decode("utf-8", "replace")

    def restart_postgres(self, number: signal.Signals) -> float:
        """Stop PostgreSQL (SIGINT: fast, SIGQUIT: immediate) and start it; return seconds."""
        begun = time.monotonic()
        os.kill(self.postgres.pid, number)
        while not self.postgres.revive():
            time.sleep(_WATCH_S)
        return time.monotonic() - begun

    async def settle_down(self) -> None:
        """Let everything be started and serve; nothing is done to it any more."""
        for slot in self.slots.values():
            await asyncio.to_thread(slot.program.ready)

    def close(self) -> None:
        """End everything."""
        self._stopping.set()
        self._watch.join()
        self._closing.close()


@asynccontextmanager
async def running(folder: Path, cast: Cast = CHAOS) -> AsyncIterator[System]:
    """Lend a system. It ends with the block, and at once when this process is asked to end."""
    loop, asked = asyncio.get_running_loop(), list[signal.Signals]()
    for number in _ASKED:
        loop.add_signal_handler(number, asked.append, number)
    system = await asyncio.to_thread(System, folder, cast)
    for number in _ASKED:
        loop.add_signal_handler(number, _abandon, system, number)
    for number in asked:
        _abandon(system, number)
    try:
        yield system
    finally:
        for number in _ASKED:
            loop.remove_signal_handler(number)
        await asyncio.to_thread(system.close)


def _abandon(system: System, number: int) -> None:
    """End its programs first: whatever waits for one of them then waits no more."""
    system.close()
    sys.exit(128 + number)


_FLAGS = (
    *("--queues", ",".join(QUEUES), "--concurrency", "8"),
    *("--log-level", "info"),
)


async def _add_our_role(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"CREATE ROLE {OURS} SUPERUSER LOGIN")
    await connection.close()


def _told(line: Mapping[str, Any]) -> str:
    """Return what an error is about, without what differs from one time to the next."""
    raised = line.get("exception", {})
    words = (line["message"], line.get("loop"), raised.get("type"), raised.get("message"))
    return ": ".join(str(word) for word in (*words, line.get("error")) if word)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def notes_of(folder: Path) -> Iterator[list[str]]:
    """Yield the words of every note."""
    for path in folder.glob("*.notes"):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield line.split()
