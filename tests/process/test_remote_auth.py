"""Remote workers and a server that asks who is there (R-1.3, R-9.1)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, JobSpec
from tests.support.certificates import Authority, settings
from tests.support.facade import Facade, serving
from tests.support.programs import RemoteWorkerProgram
from tests.support.soundness import assert_sound
from tests.support.waiting import eventually

WORK_KEY, APP_KEY = "work-key-0123456789", "app-key-0123456789"
GUARD = {
    "auth__api_keys": f"fleet:work:{WORK_KEY},app:submit:{APP_KEY}",
    "lease__renew_interval_s": 0.3,
    "worker__heartbeat_interval_s": 0.3,
}
EXPIRY = "SELECT max(expires_at) FROM jobqueue.leases"

Start = Callable[[str | None], RemoteWorkerProgram]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest_asyncio.fixture
async def server(
    database: str, conn: asyncpg.Connection, authority: Authority
) -> AsyncIterator[Facade]:
    async with serving(database, **GUARD, **settings(authority.server(), authority.path)) as facade:
        yield facade
    await assert_sound(conn)


@pytest.fixture
def start(server: Facade, authority: Authority, tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "logs").mkdir()
    made: list[RemoteWorkerProgram] = []
    pair = authority.issue("worker")
    tls = {"tls_ca": authority.path, "tls_cert": pair.cert, "tls_key": pair.key}

    def start(key: str | None) -> RemoteWorkerProgram:
        address = f"localhost:{server.port}"
        variables = {**tls, "api_key": key or ""}
        made.append(RemoteWorkerProgram(address, tmp_path / "logs", **variables))
        return made[-1]

    yield start
    for worker in made:
        worker.kill()


async def test_a_worker_with_a_certificate_and_the_role_work_runs_and_renews(
    authority: Authority,
    server: Facade,
    conn: asyncpg.Connection,
    start: Start,
    tmp_path: Path,
) -> None:
    worker, released = start(WORK_KEY), tmp_path / "released"
    tls = authority.tls(authority.issue("app"))
    payload = json.dumps({"command": f"until [ -e {released} ]; do sleep 0.1; done; echo done"})
    async with AsyncClient(f"localhost:{server.port}", tls=tls, api_key=APP_KEY) as client:
        made = await client.submit(JobSpec("default", payload.encode(), type="shell"))
        first = await eventually(lambda: conn.fetchval(EXPIRY), within_s=40, what="a lease")

        async def renewed() -> bool:
            return bool(await conn.fetchval(f"SELECT ({EXPIRY}) > $1", first))

        await eventually(renewed, within_s=40, what="a renewal through the server")
        released.touch()
        job = await client.wait(made.job_id, timeout_s=40)
    assert (job.status, job.result) == ("DONE", b"done\n")
    worker.process.terminate()
    assert await asyncio.to_thread(worker.ended) == 0
    assert WORK_KEY not in worker.text()


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "an API key or token is needed"),
        ("wrong-key-0123456789", "the API key or token is not valid"),
        (APP_KEY, "needs the role work; app has submit"),
    ],
)
async def test_a_worker_that_the_server_does_not_take_ends_with_1_and_says_why(
    start: Start, key: str | None, words: str
) -> None:
    worker = start(key)
    assert await asyncio.to_thread(worker.ended) == 1
    (told,) = [line for line in worker.text().splitlines() if not line.startswith("{")]
    assert told.startswith("jq-worker: ")
    assert words in told
    assert key is None or key not in worker.text()
