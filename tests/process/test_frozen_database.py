"""`jq-server` ends in time though PostgreSQL does not even answer a cancelled query (R-4.9)."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import DeadlineExceeded
from jobqueue.lease import hot as module
from jobqueue.lease.hot import HotConnection
from jobqueue.store.pool import Connection, connect, transaction
from tests.support.frozen import frozen, stopped
from tests.support.programs import ServerProgram, run_ctl
from tests.support.waiting import eventually_sync

NEVER_S = 3600
FAR_BELOW_A_STATEMENT_TIMEOUT_S = 25.0


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path_factory.mktemp("frozen") / "pg", durable=False) as server:
        yield server


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

    hot = HotConnection(lambda: connect(database.dsn), timeout_s=2.0)
    working = asyncio.create_task(hot.run(work))
    await begun.wait()
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

    hot = HotConnection(lambda: connect(database.dsn), timeout_s=2.0)
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
