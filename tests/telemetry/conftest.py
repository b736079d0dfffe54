"""Real programs that export to a real collector on the loopback."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from examples.trace.collector import Collector
from tests.support.postgres import Cluster
from tests.support.programs import RemoteWorkerProgram, ServerProgram, WorkerProgram

FAST = {"retry_base_delay_s": 0.1, "worker_kill_grace_s": 0.5, "scheduler_interval_ms": 100}
_HANDLERS = ("--handlers", "tests.support.traced_handlers")


class Programs:
    """Starts programs on one database and ends them all."""

    def __init__(self, dsn: str, folder: Path, running: ExitStack) -> None:
        self.dsn = dsn
        self._folder = folder
        self._running = running

    def server(self, environment: Mapping[str, str], **settings: object) -> ServerProgram:
        """Start a server that is ready, with more variables in its environment."""
        with pytest.MonkeyPatch.context() as patch:
            _set(patch, environment)
            made = ServerProgram(self.dsn, self._folder, **{**FAST, **settings})
        self._running.callback(made.kill)
        return made.ready()

    def worker(
        self, environment: Mapping[str, str], *flags: str, **settings: object
    ) -> WorkerProgram:
        """Start a worker that is ready."""
        handlers = () if "--handlers" in flags else _HANDLERS
        flags = ("--allow-shell", *handlers, *flags)
        with pytest.MonkeyPatch.context() as patch:
            _set(patch, environment)
            made = WorkerProgram(self.dsn, self._folder, *flags, **{**FAST, **settings})
        self._running.callback(made.kill)
        return made.ready()

    def remote(
        self, environment: Mapping[str, str], server: ServerProgram, *flags: str
    ) -> RemoteWorkerProgram:
        """Start a worker behind a server."""
        with pytest.MonkeyPatch.context() as patch:
            _set(patch, environment)
            made = RemoteWorkerProgram(server.address, self._folder, *_HANDLERS, *flags)
        self._running.callback(made.kill)
        return made.ready()


@pytest.fixture
def programs(database: str, tmp_path: Path) -> Iterator[Programs]:
    """Programs on a database of this test."""
    with ExitStack() as running:
        yield Programs(database, _made(tmp_path / "logs"), running)


@dataclass(frozen=True)
class Traced:
    """A server and a worker that export, the collector, and what may be started beside them."""

    server: ServerProgram
    worker: WorkerProgram
    collector: Collector
    programs: Programs


@pytest_asyncio.fixture(scope="session")
async def traced(pg: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Traced]:
    """One pair of programs for all tests that leave it as it is."""
    dsn = await pg.create_database()
    with ExitStack() as running:
        collector = running.enter_context(Collector())
        programs = Programs(dsn, _made(tmp_path_factory.mktemp("traced") / "logs"), running)
        server = programs.server(collector.environment)
        yield Traced(server, programs.worker(collector.environment), collector, programs)
    await pg.drop_database(dsn)


def _set(patch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        patch.setenv(name, value)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
