"""A real server and a real worker, seen through `jq-ctl` only."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.support.postgres import Cluster
from tests.support.programs import ServerProgram, WorkerProgram, run_ctl
from tests.support.waiting import eventually_sync

StartWorker = Callable[..., WorkerProgram]

SERVER = {"reaper_interval_ms": 100, "scheduler_interval_ms": 100}
WORKER = {"worker_heartbeat_interval_s": 0.3, "worker_kill_grace_s": 0.5}
PATIENT = "patient"
"""A queue whose failed jobs wait for an hour: a test can look at them."""
IDS = count(1)


@dataclass(frozen=True)
class Ended:
    """What a run of `jq-ctl` left behind."""

    code: int
    out: str
    err: str


class Ctl:
    """Runs `jq-ctl` against one server."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run it to its end, whatever that is."""
        ended = run_ctl(self.address, *arguments, stdin=stdin)
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    def ok(self, *arguments: str, stdin: bytes = b"") -> str:
        """Return the output of a run that succeeds and complains of nothing."""
        ended = self(*arguments, stdin=stdin)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out

    def json(self, *arguments: str) -> Any:
        """Return the document of a run that succeeds."""
        return json.loads(self.ok(*arguments, "--output", "json"))

    def yaml(self, *arguments: str) -> Any:
        """Return the same in the other format."""
        return yaml.safe_load(self.ok(*arguments, "--output", "yaml"))

    def submit(self, *flags: str, queue: str = "default", payload: str = "") -> str:
        """Submit a job and return its id."""
        return self.ok("job", "submit", "--queue", queue, "--payload", payload, *flags).strip()

    def becomes(self, job_id: str, status: str) -> Any:
        """Wait for a status of a job and return the job."""

        def look() -> Any:
            job = self.json("job", "status", job_id)
            return job if job["status"] == status else None

        return eventually_sync(look, within_s=40, what=f"{job_id} {status}")


@dataclass(frozen=True)
class System:
    """The running programs."""

    dsn: str
    folder: Path
    server: ServerProgram
    worker: WorkerProgram


@pytest_asyncio.fixture(scope="session")
async def system(pg: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """One server and one worker for all tests; tests keep apart by queues and ids."""
    dsn = await pg.create_database()
    folder = tmp_path_factory.mktemp("e2e")
    server = ServerProgram(dsn, folder, **SERVER)
    flags = ("--worker-id", "e2e", "--concurrency", "8", "--queues", f"default,{PATIENT}")
    worker = WorkerProgram(dsn, folder, *flags, **WORKER)
    try:
        delays = ("--base-delay", "3600", "--max-delay", "3600")
        Ctl(server.ready().address).ok("queue", "create", PATIENT, *delays)
        yield System(dsn, folder, server, worker.ready())
    finally:
        worker.kill()
        server.kill()
        await pg.drop_database(dsn)


@pytest.fixture
def ctl(system: System) -> Ctl:
    """`jq-ctl` against the running server."""
    return Ctl(system.server.address)


@pytest.fixture
def queue(ctl: Ctl) -> str:
    """The name of a new queue that no worker serves."""
    name = f"idle-{next(IDS)}"
    ctl.ok("queue", "create", name)
    return name


@pytest.fixture
def start_worker(system: System) -> Iterator[StartWorker]:
    """Start further workers, which end with the test."""
    started: list[WorkerProgram] = []

    def start(*flags: str, **settings: object) -> WorkerProgram:
        started.append(WorkerProgram(system.dsn, system.folder, *flags, **{**WORKER, **settings}))
        return started[-1].ready()

    yield start
    for worker in started:
        worker.kill()
