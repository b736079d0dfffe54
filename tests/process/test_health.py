"""Probes of the two programs, asked as an orchestrator asks them (R-7.4)."""

import asyncio
import math
import signal
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.runtime.service import FIRST_BACKOFF_S, LAST_BACKOFF_S
from tests.support.probes import OK, UNAVAILABLE, becomes, probe
from tests.support.programs import ServerProgram, WorkerProgram, run_ctl
from tests.support.waiting import eventually

FAILURES_TO_THE_LONGEST = 1 + math.ceil(math.log2(LAST_BACKOFF_S / FIRST_BACKOFF_S))


@dataclass(frozen=True)
class Product:
    """A server and a worker on a database of their own."""

    postgres: EmbeddedPostgres
    server: ServerProgram
    worker: WorkerProgram


@pytest_asyncio.fixture
async def product(tmp_path: Path) -> AsyncIterator[Product]:
    postgres = EmbeddedPostgres(tmp_path / "pg", durable=False)
    await asyncio.to_thread(postgres.start)
    logs = tmp_path / "logs"
    logs.mkdir()
    server = ServerProgram(postgres.dsn, logs)
    worker = WorkerProgram(postgres.dsn, logs)
    try:
        for program in (server, worker):
            await asyncio.to_thread(program.ready)
        yield Product(postgres, server, worker)
    finally:
        server.kill()
        worker.kill()
        await asyncio.to_thread(postgres.stop)


async def backs_off(worker: WorkerProgram) -> None:
    """Wait until a worker has failed so often that its waits grow no more."""

    async def look() -> bool:
        _, body = await asyncio.to_thread(probe, worker, "/readyz")
        return int(body["failing"].get("claim", "0").partition(" ")[0]) >= FAILURES_TO_THE_LONGEST

    await eventually(look, within_s=60, what="the longest backoff")


async def test_an_outage_of_the_database_makes_both_unready_and_neither_dead(
    product: Product,
) -> None:
    programs = (product.server, product.worker)
    due_in_it = ("--queue", "default", "--type", "echo", "--payload", "", "--delay", "3")
    job_id = run_ctl(product.server.address, "job", "submit", *due_in_it).stdout.decode().strip()
    for program in programs:
        assert await becomes(program, "/readyz", OK) == {"status": "ok"}
    await asyncio.to_thread(product.postgres.stop)
    missing = {product.server: {"database"}, product.worker: {"claim", "heartbeat"}}
    for program in programs:
        body = await becomes(program, "/readyz", UNAVAILABLE)
        assert body["failing"].keys() <= missing[program]
        assert await asyncio.to_thread(probe, program, "/healthz") == (OK, {"status": "ok"})
    await backs_off(product.worker)
    await asyncio.to_thread(product.postgres.start)
    back = time.monotonic()
    ended = await asyncio.to_thread(run_ctl, product.server.address, "job", "watch", job_id)
    print(f"done {time.monotonic() - back:.2f} s after the database was back")  # noqa: T201 - told
    assert ended.returncode == 0, ended.stderr
    for program in programs:
        await becomes(program, "/readyz", OK)


async def test_what_ends_is_unready_and_says_why(product: Product) -> None:
    product.worker.send(signal.SIGUSR1)
    body = await becomes(product.worker, "/readyz", UNAVAILABLE)
    assert body["failing"] == {"worker": "draining"}
    assert await asyncio.to_thread(probe, product.worker, "/healthz") == (OK, {"status": "ok"})


async def test_a_server_without_a_database_yet_is_alive_and_starting(tmp_path: Path) -> None:
    server = ServerProgram("postgresql://nobody@127.0.0.1:1/none", tmp_path)
    try:

        async def answers() -> bool:
            return any("health_port" in line for line in server.lines())

        await eventually(answers, within_s=30, what="the health port")
        body = await becomes(server, "/readyz", UNAVAILABLE)
        assert body["failing"] == {"server": "starting"}
        assert probe(server, "/healthz")[0] == OK
    finally:
        server.kill()


@pytest.mark.parametrize("door", ["health", "metrics"])
@pytest.mark.parametrize("program", [ServerProgram, WorkerProgram])
def test_a_taken_port_ends_a_program_with_one_line(
    program: type[ServerProgram | WorkerProgram], door: str, database: str, tmp_path: Path
) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        started = program(database, tmp_path, **{f"{door}_port": port})
        try:
            assert started.ended(60) == 1
        finally:
            started.kill()
    said = [line for line in started.text().splitlines() if not line.startswith("{")]
    assert len(said) == 1
    assert f"cannot listen on port {port} ({door}.port)" in said[0]
