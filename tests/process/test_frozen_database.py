"""Programs end in time though PostgreSQL does not even answer a cancelled query (R-4.9)."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import DeadlineExceeded
from jobqueue.lease import hot as module
from jobqueue.lease.hot import HotConnection
from jobqueue.store.migrate import migrate
from jobqueue.store.pool import Connection, connect, transaction
from tests.support.frozen import frozen, stopped
from tests.support.programs import ServerProgram, WorkerProgram, run_ctl
from tests.support.store import add_queue, submit, waits
from tests.support.waiting import HANG_S, eventually, eventually_sync

NEVER_S = 3600
FAR_BELOW_A_STATEMENT_TIMEOUT_S = 25.0


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path_factory.mktemp("frozen") / "pg", durable=False) as server:
        yield server


async def patiently(dsn: str) -> Connection:
    return await connect(dsn, connect_timeout_s=HANG_S)


def await_a_call_without_an_answer(server: ServerProgram) -> None:
    """Every statement that was under way is stuck by then, the loops' too."""

    def stuck() -> bool:
        return run_ctl(server.address, "--timeout", "1", "queue", "list").returncode == 5

    eventually_sync(stuck, within_s=30.0, what="a call without an answer")


async def test_a_transaction_on_a_frozen_database_is_left_in_time(
    database: EmbeddedPostgres,
) -> None:
    begun, is_frozen = asyncio.Event(), asyncio.Event()

    async def work(connection: Connection) -> None:
        async with transaction(connection):
            await connection.execute("SELECT 1")
            begun.set()
            await is_frozen.wait()
            await connection.execute("SELECT 1")

    hot = HotConnection(lambda: patiently(database.dsn), timeout_s=5.0)
    working = asyncio.create_task(hot.run(work))
    beginning = asyncio.create_task(begun.wait())
    await asyncio.wait({working, beginning}, return_when=asyncio.FIRST_COMPLETED)
    assert begun.is_set(), working
    with frozen(database):
        is_frozen.set()
        async with asyncio.timeout(FAR_BELOW_A_STATEMENT_TIMEOUT_S):
            with pytest.raises(DeadlineExceeded):
                await working
    await hot.close()


async def test_an_idle_connection_whose_peer_is_gone_costs_no_work(
    database: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def backend(connection: Connection) -> int:
        return int(await connection.fetchval("SELECT pg_backend_pid()"))

    hot = HotConnection(lambda: patiently(database.dsn), timeout_s=10.0)
    first = await hot.run(backend)
    assert await hot.run(backend) == first
    with monkeypatch.context() as patch, stopped(first):
        patch.setattr(module, "IDLE_S", 0.0)
        assert await hot.run(backend) != first
    await hot.close()


@pytest.mark.parametrize(
    ("grace_s", "signals"), [(2, 1), (NEVER_S, 2)], ids=["its grace", "a second signal"]
)
def test_a_frozen_database_does_not_outlast(
    database: EmbeddedPostgres, tmp_path: Path, grace_s: int, signals: int
) -> None:
    server = ServerProgram(database.dsn, tmp_path, server_shutdown_grace_period_s=grace_s).ready()
    try:
        with frozen(database):
            await_a_call_without_an_answer(server)
            server.send(signal.SIGTERM)
            if signals == 2:
                eventually_sync(
                    lambda: "shutting down" in server.text(), within_s=30.0, what="its end"
                )
                server.send(signal.SIGTERM)
            assert server.ended(FAR_BELOW_A_STATEMENT_TIMEOUT_S) == 0
    finally:
        server.kill()


def test_a_server_tells_how_it_is_though_its_database_stands_still(
    database: EmbeddedPostgres, tmp_path: Path
) -> None:
    server = ServerProgram(database.dsn, tmp_path).ready()
    try:
        with frozen(database):
            await_a_call_without_an_answer(server)
            told = run_ctl(server.address, "status", "--output", "json")
        assert told.returncode == 0, told.stderr
        states = {part["name"]: part["state"] for part in json.loads(told.stdout)["components"]}
        assert states["postgresql"] == "down"
        assert states["announcer"] == "ok"
    finally:
        server.kill()


QUICK = {
    "lease_duration_s": 10,
    "lease_renew_interval_s": 0.5,
    # A beat is a commit too: there is none but the first.
    "worker_heartbeat_interval_s": 300,
    "scheduler_worker_heartbeat_timeout_s": 600,
    "worker_kill_grace_s": 0.5,
    "worker_shutdown_grace_period_s": 1,
}
WORKERS_LIMIT_S = 40.0
"""The grace of one that is cut off and of what it runs, and what it may take after them (+35 s)."""
RENEWS = """
    SELECT count(*) > 0 FROM pg_stat_activity a
    JOIN jobqueue.leases l ON l.xmax = a.backend_xid JOIN jobqueue.jobs j USING (id)
    WHERE a.application_name = 'jq-keeper' AND a.wait_event = 'SyncRep' AND j.job_id = $1
"""


async def in_a_statement(db: Connection, holder: asyncpg.Connection) -> None:
    """Let the outcome of a job wait for a lock."""
    await holder.execute("BEGIN; LOCK TABLE jobqueue.finished IN SHARE MODE")
    await submit(db, queue="statement", type="async-returns", payload=b"none")
    await eventually(lambda: waits(db, "jq-settler"), what="a settle that waits")


async def in_a_commit(db: Connection, job_id: UUID) -> None:
    """Let the renewal of a running job wait for a standby that never confirms."""
    await db.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    await db.execute("SELECT pg_reload_conf()")

    async def both() -> bool:
        return await db.fetchval(RENEWS, job_id) and await waits(db, "jq-settler")

    await eventually(both, what="a commit that waits, beside the settle")


def worker_of(queue: str, dsn: str, folder: Path) -> WorkerProgram:
    folder.mkdir()
    return WorkerProgram(dsn, folder, "--queues", queue, **QUICK)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_frozen_database_does_not_outlast_workers_in_a_statement_in_a_commit_or_in_none(
    tmp_path: Path,
) -> None:
    states = ("none", "statement", "commit")
    with EmbeddedPostgres(tmp_path / "pg", durable=False) as server:
        await migrate(server.dsn)
        # One of ours would not be let stand still in its transaction.
        db, holder = await patiently(server.dsn), await asyncpg.connect(server.dsn)
        for state in states:
            await add_queue(db, state)
        workers = [worker_of(state, server.dsn, tmp_path / state) for state in states]
        try:
            for worker in workers:
                await asyncio.to_thread(worker.ready)
            (renewed,) = await submit(db, queue="commit", type="async-sleeps")
            running = "SELECT count(*) FROM jobqueue.leases WHERE running"
            await eventually(lambda: db.fetchval(running), what="a running job")
            await in_a_statement(db, holder)
            await in_a_commit(db, renewed)
            with frozen(server):
                for worker in workers:
                    worker.send(signal.SIGTERM)
                codes = [await asyncio.to_thread(w.ended, WORKERS_LIMIT_S) for w in workers]
            assert codes == [0, 1, 1], "two left a lease behind"
        finally:
            for worker in workers:
                worker.kill()
            holder.terminate()
            db.terminate()
