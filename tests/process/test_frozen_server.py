"""A server that takes connections and answers nothing, as one behind a dead network."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import asyncpg
import psutil
import pytest

from jobqueue.client import AsyncClient, Client, JobSpec
from jobqueue.errors import Unavailable
from jobqueue.transport.pings import ANSWER_S, ASKED_AFTER_S
from tests.support.family import family, told_by
from tests.support.frozen import stopped
from tests.support.programs import Program, RemoteWorkerProgram, ServerProgram
from tests.support.store import add_queue, submit
from tests.support.waiting import HANG_S, eventually

LEASE_S = 15
TIMES = {
    "lease_duration_s": LEASE_S,
    "lease_renew_interval_s": 2,
    "worker_heartbeat_interval_s": 1,
    "reaper_interval_ms": 200,
}
EXPIRY = "SELECT max(expires_at) FROM jobqueue.leases WHERE running"


@pytest.mark.slow
async def test_streams_without_an_end_break_when_their_server_is_gone_without_a_word(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    await add_queue(conn)
    await submit(conn)
    server = ServerProgram(database, tmp_path)
    try:
        await asyncio.to_thread(server.ready)
        with Client(server.address) as client:
            async with AsyncClient(server.address) as other:
                events = client.tail_events(after=0, follow=True)
                others = other.tail_events(after=0, follow=True)
                await asyncio.gather(asyncio.to_thread(next, events), anext(others))
                with stopped(server.process.pid):
                    async with asyncio.timeout(ASKED_AFTER_S + ANSWER_S + HANG_S):
                        ends = await asyncio.gather(
                            asyncio.to_thread(next, events), anext(others), return_exceptions=True
                        )
        assert [type(end) for end in ends] == [Unavailable, Unavailable]
    finally:
        server.kill()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_worker_keeps_its_job_when_the_server_it_uses_stands_still_beside_another(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    logs, go = tmp_path / "logs", tmp_path / "go"
    logs.mkdir()
    servers = [ServerProgram(database, logs, **TIMES) for _ in range(2)]
    programs: list[Program] = [*servers]
    try:
        for server in servers:
            await asyncio.to_thread(server.ready)
        job_id, used = await runs_through_one(servers, programs, go, conn)
        (other,) = set(servers) - {used}
        async with AsyncClient(other.address) as client:
            with stopped(used.process.pid):
                await eventually(used.stands_still)
                await a_lease_passes(conn)
                go.touch()
                ended = await client.wait(job_id, timeout_s=HANG_S)
                assert await used.stands_still()
        assert (ended.status, ended.attempt) == ("DONE", 1)
    finally:
        for program in programs:
            program.kill()


async def runs_through_one(
    servers: Sequence[ServerProgram], programs: list[Program], go: Path, conn: asyncpg.Connection
) -> tuple[UUID, ServerProgram]:
    """Let a worker run a job; return its id, and the server that worker and keeper both use.

    Each takes the address that answers first, which on a busy machine may be either one.
    """
    by_port = {server.address.rpartition(":")[2]: server for server in servers}
    addresses = "ipv4:" + ",".join(server.address for server in servers)
    async with AsyncClient(servers[0].address) as client:
        while True:
            programs.append(worker := RemoteWorkerProgram(addresses, go.parent / "logs"))
            await asyncio.to_thread(worker.ready)
            job_id = await runs_until(go, client, conn)
            used = {by_port[port] for port in ports(worker)}
            if len(used) == 1:
                return job_id, used.pop()
            go.touch()
            await client.wait(job_id, timeout_s=HANG_S)
            worker.kill()
            go.unlink()


async def runs_until(go: Path, client: AsyncClient, conn: asyncpg.Connection) -> UUID:
    """Start a job that ends when there is such a file; return its id when it was renewed."""
    command = json.dumps({"command": f"until [ -e {go} ]; do sleep 0.1; done"})
    job = await client.submit(JobSpec("default", command.encode(), type="shell"))
    first = await eventually(lambda: conn.fetchval(EXPIRY), what="the start of the job")
    await eventually(lambda: conn.fetchval(f"SELECT ({EXPIRY}) > $1", first), what="a renewal")
    return job.job_id


def ports(worker: Program) -> Iterator[str]:
    """Yield those with which the worker and its keeper are connected."""
    for _, connections in told_by(family(worker.process.pid), psutil.Process.net_connections):
        for connection in connections:
            if connection.status == psutil.CONN_ESTABLISHED:
                yield str(connection.raddr.port)


async def a_lease_passes(conn: asyncpg.Connection) -> None:
    """Wait for as long as a lease lasts, by the clock that counts it."""
    end = await conn.fetchval("SELECT clock_timestamp() + make_interval(secs => $1)", LEASE_S)
    over = "SELECT clock_timestamp() > $1"
    await eventually(lambda: conn.fetchval(over, end), within_s=LEASE_S + HANG_S)
