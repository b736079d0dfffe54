"""Certificates that end and are renewed under a worker behind a server (R-9.1)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, JobSpec
from tests.chaos.network import Link, Weather, to_port
from tests.support.certificates import Authority, Pair, past, settings
from tests.support.facade import serving
from tests.support.programs import RemoteWorkerProgram
from tests.support.waiting import eventually

BEATS = {"lease__renew_interval_s": 0.3, "worker__heartbeat_interval_s": 0.3}
EXPIRY = "SELECT max(expires_at) FROM jobqueue.leases"
REFUSED = "it may want TLS, or a client certificate that it trusts"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def served(authority: Authority) -> Pair:
    return authority.server()


@pytest_asyncio.fixture
async def way(database: str, authority: Authority, served: Pair) -> AsyncIterator[Link]:
    """The way to a server that wants certificates of clients."""
    async with serving(database, **BEATS, **settings(served, authority.path)) as facade:
        link = Link(to_port(facade.port))
        yield link
        link.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_worker_outlives_the_end_of_its_certificate_and_a_change_of_ca(
    way: Link,
    authority: Authority,
    served: Pair,
    conn: asyncpg.Connection,
    tmp_path: Path,
    logs: Path,
) -> None:
    own, other = authority.issue("worker"), Authority(tmp_path, "other")
    trusted = tmp_path / "trusted-by-the-worker.pem"
    trusted.write_bytes(authority.path.read_bytes())
    tls = {"tls_ca": trusted, "tls_cert": own.cert, "tls_key": own.key}
    worker = RemoteWorkerProgram(way.address, logs, **tls)
    try:
        await asyncio.to_thread(worker.ready)
        own.become(authority.issue("ended", until=past()))
        way.turn(Weather.CUT)
        way.turn(Weather.FAIR)
        assert way.hit > 0
        await says(worker, REFUSED)

        for file in (authority.path, trusted):
            file.write_bytes(other.path.read_bytes())
        served.become(other.server("next"))
        own.become(other.issue("of-the-new-ca"))
        await runs(way, other, conn, tmp_path / "go")
        assert "certificates reloaded" in worker.text()
        worker.process.terminate()
        assert await asyncio.to_thread(worker.ended) == 0
    finally:
        worker.kill()


async def says(worker: RemoteWorkerProgram, words: str) -> None:
    async def said() -> bool:
        return words in worker.text()

    await eventually(said, within_s=60, what=words)


async def runs(way: Link, authority: Authority, conn: asyncpg.Connection, go: Path) -> None:
    """Have a job started, its lease renewed, and its end recorded."""
    tls = authority.tls(authority.issue("app"))
    command = json.dumps({"command": f"until [ -e {go} ]; do sleep 0.1; done"})
    async with AsyncClient(way.address, tls=tls) as client:
        made = await client.submit(JobSpec("default", command.encode(), type="shell"))
        first = await eventually(lambda: conn.fetchval(EXPIRY), within_s=60, what="a lease")

        async def renewed() -> bool:
            return bool(await conn.fetchval(f"SELECT ({EXPIRY}) > $1", first))

        await eventually(renewed, within_s=60, what="a renewal by the keeper")
        go.touch()
        assert (await client.wait(made.job_id, timeout_s=60)).status == "DONE"
