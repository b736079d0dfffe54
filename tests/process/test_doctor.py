"""`jq-ctl doctor` against the whole product at work, on a PostgreSQL as people run it."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from jobqueue.client import AsyncClient, Finding, JobSpec
from jobqueue.domain.checkup import Check
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import Aborted
from tests.support.programs import ServerProgram, WorkerProgram, run_ctl
from tests.support.waiting import eventually

WORKERS, LOOKS = 4, 2
FAILS = b'{"command": "exit 1"}'


@dataclass(frozen=True)
class Product:
    """The running programs and their database."""

    dsn: str
    server: ServerProgram
    workers: Sequence[WorkerProgram]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A durable PostgreSQL, a server and four workers."""
    folder = tmp_path_factory.mktemp("doctor")
    logs = folder / "logs"
    logs.mkdir()
    with EmbeddedPostgres(folder / "pg") as database:
        server = ServerProgram(database.dsn, logs, retry_base_delay_s=0.2)
        workers: list[WorkerProgram] = []
        try:
            server.ready()
            workers += [WorkerProgram(database.dsn, logs) for _ in range(WORKERS)]
            yield Product(database.dsn, server, [worker.ready() for worker in workers])
        finally:
            for program in (*workers, server):
                program.kill()


def look(product: Product, *flags: str) -> tuple[int, dict[str, Any]]:
    """Run a check-up; return its exit code and the findings by check."""
    run = run_ctl(product.server.address, "doctor", "--output", "json", *flags)
    assert run.stderr == b""
    return run.returncode, {c["check"]: c for c in json.loads(run.stdout)["checks"]}


async def feed(product: Product, stop: asyncio.Event) -> None:
    """Submit jobs that succeed, fail and wait until told to stop."""
    kinds = [
        JobSpec("default", type="echo"),
        JobSpec("default", FAILS, type="shell"),
        JobSpec("default", type="echo", delay_s=0.3),
    ]
    async with AsyncClient(product.server.address) as client:
        while not stop.is_set():
            *_, last = await client.submit_many([kinds[0], *kinds] * 3)
            await client.wait(last.job_id, timeout_s=60)


async def all_have_beaten(conn: asyncpg.Connection) -> bool:
    told = await conn.fetchval("SELECT count(clock_skew_ms) FROM jobqueue.workers")
    return bool(told == WORKERS)


async def ended(conn: asyncpg.Connection) -> int:
    return int(await conn.fetchval("SELECT count(*) FROM jobqueue.finished"))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_product_at_work_is_sound_and_a_lost_row_is_named(product: Product) -> None:
    conn, stop = await asyncpg.connect(product.dsn), asyncio.Event()
    feeding = asyncio.create_task(feed(product, stop))
    await eventually(lambda: ended(conn), within_s=30, what="the first end")
    await eventually(lambda: all_have_beaten(conn), within_s=30, what="a beat of each worker")

    async def sound_while_jobs_ended() -> bool:
        before = await ended(conn)
        code, found = await asyncio.to_thread(look, product)
        if [check for check, c in found.items() if c["verdict"] != "ok"] == ["clocks"]:
            return False  # a beat that was long on its way looks like a clock that is off
        assert (code, {c["verdict"] for c in found.values()}) == (0, {"ok"}), found
        assert list(found) == list(Check)
        assert found["clocks"]["found"].startswith(f"{WORKERS} workers, ")
        return await ended(conn) > before

    for _ in range(LOOKS):
        await eventually(sound_while_jobs_ended, within_s=60, what="a look at a product at work")
    stop.set()
    await feeding
    lost = await conn.fetchval(
        "WITH f AS (DELETE FROM jobqueue.finished WHERE id = (SELECT min(id) FROM "
        "jobqueue.finished) RETURNING id) SELECT job_id FROM jobqueue.jobs JOIN f USING (id)"
    )
    await conn.close()
    code, found = look(product, "--check", "places")
    assert (code, found["places"]["verdict"]) == (1, "fail")
    assert found["places"]["examples"] == [f"{lost} in no table"]


async def test_a_caller_who_leaves_makes_room_for_the_next(product: Product) -> None:
    conn = await asyncpg.connect(product.dsn)
    async with AsyncClient(product.server.address) as client:

        async def room() -> bool:
            try:
                return [step async for step in client.doctor(["schema"])] != []
            except Aborted:
                return False

        async with conn.transaction():
            await conn.execute("LOCK TABLE jobqueue.finished")  # keeps the first one busy
            async with aclosing(client.doctor()) as steps:
                assert isinstance(await anext(steps), Finding)
                assert not await room()
            await eventually(room, within_s=30, what="room for another check-up")
    await conn.close()
