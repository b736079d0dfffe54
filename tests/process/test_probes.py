"""What turns a probe of a real program red, and what must not (R-7.4)."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.store.migrate import migrate
from jobqueue.store.pool import create_pool
from tests.support.frozen import frozen, stopped
from tests.support.probes import OK, UNAVAILABLE, becomes, probe, probe_port
from tests.support.programs import (
    HANDLERS,
    Program,
    RemoteWorkerProgram,
    ServerProgram,
    WorkerProgram,
    environment,
    run_ctl,
)
from tests.support.redis import free_port
from tests.support.store import add_queue, status, submit
from tests.support.waiting import HANG_S, eventually

NOBODY = "127.0.0.1:1"
FOR_EVER = ("--type", "shell", "--payload", '{"command": "exec sleep 3600"}')
STUCK_CALLS = "SELECT count(*) FROM pg_locks WHERE NOT granted"
CALM_CLAIMS = """
    SELECT pid FROM pg_stat_activity WHERE application_name = 'jq-worker' AND state = 'idle'
        AND clock_timestamp() - state_change BETWEEN interval '1 s' AND interval '1.2 s'
"""
"""The waits between claims that find nothing double from 50 ms: after a second of rest the next is
not now. One that is stopped at work may hold what all of PostgreSQL waits for."""
SHORT = {
    "lease_duration_s": 6,  # a statement may take a quarter of it
    "lease_renew_interval_s": 1,
    "worker_heartbeat_interval_s": 1,
}
LONG = {
    "lease_duration_s": 3600,  # here it is an eighth of the stall limit
    "lease_renew_interval_s": 1200,
    "worker_heartbeat_interval_s": 1,
    "worker_stall_limit_s": 16,
}
ANOTHER_MAKES_PARTITIONS = """
    SELECT pg_advisory_lock('jobqueue.job_events'::regclass::oid::bigint)
"""
DROP_TOMORROW = """
    DO $$ BEGIN EXECUTE 'DROP TABLE jobqueue.job_events_' || to_char(date_trunc('week',
        (now() AT TIME ZONE 'UTC') + interval '1 day'), 'IYYY"w"IW'); END $$
"""

SLOW_HANDLERS = """
import threading
from jobqueue.worker import handler

assert threading.current_thread() is threading.main_thread()
print("importing slow_handlers", flush=True)
open({gate!r}).read()

@handler("slow")
async def slow(context):
    pass
"""


class Wedged(Program):
    """A program with a loop that never ends a turn."""

    def __init__(self, kind: str, dsn: str, folder: Path, **settings: object) -> None:
        flags = ["--grpc-port", "0"] if kind == "server" else ["--handlers", HANDLERS]
        argv = [sys.executable, "-m", "tests.support.wedged_program", kind, *flags]
        super().__init__(argv, folder, environment(db_url=dsn, health_port=0, **settings))


@pytest_asyncio.fixture
async def postgres(tmp_path: Path) -> AsyncIterator[EmbeddedPostgres]:
    running = EmbeddedPostgres(tmp_path / "pg", durable=False)
    await asyncio.to_thread(running.start)
    yield running
    await asyncio.to_thread(running.stop)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "logs"
    made.mkdir()
    return made


async def test_a_database_that_hangs_makes_all_unready_and_none_dead(
    postgres: EmbeddedPostgres, folder: Path
) -> None:
    beats = {"worker_heartbeat_interval_s": 1}
    server = ServerProgram(postgres.dsn, folder, **beats)
    programs: list[Program] = [server]
    try:
        await asyncio.to_thread(server.ready)
        full = WorkerProgram(postgres.dsn, folder, "--concurrency", "1", **beats)
        remote = RemoteWorkerProgram(server.address, folder, "--queues", "other")
        programs += [full, remote]
        for worker in (full, remote):
            await asyncio.to_thread(worker.ready)
        submitted = run_ctl(server.address, "job", "submit", "--queue", "default", *FOR_EVER)
        assert submitted.returncode == 0, submitted.stderr

        async def busy() -> bool:
            return any(line["message"] == "attempt begun" for line in full.lines())

        await eventually(busy, within_s=30, what="a worker without a free slot")
        with frozen(postgres):
            failing = {
                program: (await becomes(program, "/readyz", UNAVAILABLE))["failing"]
                for program in programs
            }
            for program in programs:
                assert await asyncio.to_thread(probe, program, "/healthz") == (OK, {"status": "ok"})
        assert failing[server] == {"database": "no answer in 5 s"}
        assert list(failing[full]) == ["heartbeat"], "it claims nothing, and hears of it yet"
        assert list(failing[remote]) == ["heartbeat"]
        for program in programs:
            await becomes(program, "/readyz", OK)
    finally:
        for program in programs:
            program.kill()


async def test_a_statement_that_is_given_up_ends_also_on_a_database_that_hangs(
    postgres: EmbeddedPostgres,
) -> None:
    pool = await create_pool(postgres.dsn, size=1, connect_timeout_s=HANG_S)
    with frozen(postgres):
        async with asyncio.timeout(40):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await pool.fetchval("SELECT 1")
    assert await pool.fetchval("SELECT 1") == 1, "the only connection is free again"
    await pool.close()


async def test_a_worker_whose_handlers_take_long_to_import_is_alive_and_not_ready(
    database: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "slow_handlers.py").write_text(SLOW_HANDLERS.format(gate=str(gate)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    held, port = os.open(gate, os.O_RDWR), free_port()
    worker = WorkerProgram(database, folder, "--handlers", "slow_handlers", health_port=port)
    try:

        async def importing() -> bool:
            return "importing slow_handlers" in worker.text()

        await eventually(importing, within_s=60, what="the import")
        starting = {"status": "failing", "failing": {"worker": "starting"}}
        assert await asyncio.to_thread(probe_port, port, "/readyz") == (UNAVAILABLE, starting)
        assert await asyncio.to_thread(probe_port, port, "/healthz") == (OK, {"status": "ok"})
        os.close(held)
        await asyncio.to_thread(worker.ready)
        assert await becomes(worker, "/readyz", OK) == {"status": "ok"}
        worker.send(signal.SIGTERM)
        assert await asyncio.to_thread(worker.ended) == 0
    finally:
        worker.kill()


@pytest.mark.parametrize("kind", ["server", "worker"])
async def test_a_loop_that_hangs_turns_healthz_of_its_program_red(
    kind: str, database: str, tmp_path: Path
) -> None:
    program = Wedged(kind, database, tmp_path)
    try:
        await asyncio.to_thread(program.ready)
        body = await becomes(program, "/healthz", UNAVAILABLE)
        assert list(body["failing"]) == ["wedged"]
        assert body["failing"]["wedged"].startswith("no progress for ")
        assert await becomes(program, "/readyz", OK) == {"status": "ok"}
    finally:
        program.kill()


async def test_a_worker_whose_claims_alone_never_end_is_killed_though_it_beats(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    worker = Wedged(
        "claims", database, tmp_path, worker_stall_limit_s=4, worker_heartbeat_interval_s=1
    )
    try:
        await asyncio.to_thread(worker.ready)
        assert await asyncio.to_thread(worker.ended, 60.0) == -signal.SIGKILL
        assert await conn.fetchval("SELECT last_beat_at > started_at FROM jobqueue.workers")
    finally:
        worker.kill()


@pytest.mark.parametrize("settings", [SHORT, LONG])
async def test_a_worker_whose_claims_wait_for_a_dead_peer_beats_and_works_on(
    postgres: EmbeddedPostgres, folder: Path, settings: dict[str, object]
) -> None:
    await migrate(postgres.dsn)
    conn = await asyncpg.connect(postgres.dsn)
    await add_queue(conn)
    worker = WorkerProgram(postgres.dsn, folder, "--queues", "q", **settings)
    try:
        await asyncio.to_thread(worker.ready)
        claims = await eventually(lambda: conn.fetchval(CALM_CLAIMS), what="a rest between claims")
        with stopped(claims):
            began = await conn.fetchval("SELECT clock_timestamp()")
            (job_id,) = await submit(conn, type="echo")

            async def done() -> bool:
                return await status(conn, job_id) == "DONE"

            await eventually(done, within_s=60, what="a claim on another connection")
            beaten = "SELECT last_beat_at > $1 FROM jobqueue.workers"
            await eventually(lambda: conn.fetchval(beaten, began), what="a beat meanwhile")
        assert [line for line in worker.lines() if line.get("loop") == "claim"], "it never hung"
    finally:
        await conn.close()
        worker.kill()


async def test_a_server_without_redis_and_kafka_is_ready_and_says_what_it_lacks(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    server = ServerProgram(database, tmp_path, redis_addr=NOBODY, kafka_brokers=NOBODY)
    try:
        await asyncio.to_thread(server.ready)
        await becomes(server, "/readyz", OK)
        await add_queue(conn)
        await submit(conn)

        async def degraded() -> bool:
            status, body = await asyncio.to_thread(probe, server, "/readyz")
            assert status == OK, body
            return set(body.get("degraded", ())) == {"redis", "kafka"}

        await eventually(degraded, within_s=60, what="redis and kafka under degraded")
        assert await asyncio.to_thread(probe, server, "/healthz") == (OK, {"status": "ok"})
    finally:
        server.kill()


async def test_a_server_without_a_partition_for_tomorrow_is_unready_and_makes_it_at_once(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    server = ServerProgram(database, tmp_path)
    try:
        await asyncio.to_thread(server.ready)
        await becomes(server, "/readyz", OK)
        await conn.execute(ANOTHER_MAKES_PARTITIONS)
        await conn.execute(DROP_TOMORROW)
        body = await becomes(server, "/readyz", UNAVAILABLE)
        assert body["failing"] == {"database": "events soon have no partition"}
        assert await asyncio.to_thread(probe, server, "/healthz") == (OK, {"status": "ok"})
        await conn.execute("SELECT pg_advisory_unlock_all()")
        await becomes(server, "/readyz", OK)
    finally:
        server.kill()


async def test_a_server_that_drains_is_unready_and_alive_until_its_last_call_is_answered(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    server = ServerProgram(database, tmp_path)
    try:
        await asyncio.to_thread(server.ready)
        await becomes(server, "/readyz", OK)
        async with conn.transaction():
            await conn.execute("SELECT FROM jobqueue.queues WHERE name = 'default' FOR UPDATE")
            calling = asyncio.create_task(
                asyncio.to_thread(
                    run_ctl, server.address, "queue", "pause", "default", "--timeout", "60"
                )
            )

            async def under_way() -> bool:
                return bool(await conn.fetchval(STUCK_CALLS))

            await eventually(under_way, within_s=30, what="a call that waits for a lock")
            server.send(signal.SIGTERM)
            body = await becomes(server, "/readyz", UNAVAILABLE)
            assert body["failing"] == {"server": "draining"}
            assert await asyncio.to_thread(probe, server, "/healthz") == (OK, {"status": "ok"})
            assert not calling.done()
        assert (await calling).returncode == 0
        assert await asyncio.to_thread(server.ended) == 0
    finally:
        server.kill()
