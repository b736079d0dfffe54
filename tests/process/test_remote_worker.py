"""`jq-worker` without a database: real programs, one server, the same promises."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from tests.support.facade import Facade, serving
from tests.support.programs import RemoteWorkerProgram
from tests.support.soundness import assert_sound

Start = Callable[..., RemoteWorkerProgram]

TIMES = {
    "lease__duration_s": 3,
    "lease__renew_interval_s": 0.5,
    "worker__heartbeat_interval_s": 0.5,
    "reaper__interval_ms": 100,
    "scheduler__interval_ms": 100,
}
CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database()
      AND application_name IN ('jq-worker', 'jq-keeper', 'jq-listener')
"""


@pytest_asyncio.fixture
async def server(database: str, conn: asyncpg.Connection) -> AsyncIterator[Facade]:
    async with serving(database, **TIMES) as facade:
        yield facade
    await assert_sound(conn)


@pytest.fixture
def start(server: Facade, tmp_path: Path) -> Iterator[Start]:
    folder = tmp_path / "logs"
    folder.mkdir()
    made: list[RemoteWorkerProgram] = []

    def start(*flags: str, **settings: object) -> RemoteWorkerProgram:
        address = f"127.0.0.1:{server.port}"
        settings = {"worker_kill_grace_s": 0.5, **settings}
        made.append(RemoteWorkerProgram(address, folder, *flags, **settings))
        return made[-1]

    yield start
    for worker in made:
        worker.kill()


async def ready(worker: RemoteWorkerProgram, count: int = 1) -> RemoteWorkerProgram:
    return await asyncio.to_thread(worker.ready, count)


async def exits(worker: RemoteWorkerProgram) -> int:
    return await asyncio.to_thread(worker.ended)


async def test_jobs_of_every_kind_run_without_a_database_connection(
    server: Facade, start: Start, conn: asyncpg.Connection
) -> None:
    worker = await ready(start())
    kinds = {"echo": b"x", "async-returns": b"none", "thread": b"", "shell": b'{"command":"pwd"}'}
    ids = {kind: await server.submit(type=kind, payload=p) for kind, p in kinds.items()}
    for job_id in ids.values():
        await server.becomes(job_id, "DONE")
    assert (await server.get(ids["echo"])).result == b"x"
    failed = await server.submit(type="segfaults", max_retries=0)
    job = await server.becomes(failed, "DEAD_LETTERED")
    assert job.last_error == "handler process died with signal SIGSEGV"
    assert worker.process.poll() is None
    assert await conn.fetchval(CONNECTIONS) == 0
    assert [w.mode for w in await server.workers()] == ["remote"]
