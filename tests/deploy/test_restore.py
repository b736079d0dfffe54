"""What docs/deploy.md says of a restored dump, on two real clusters."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest_asyncio

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.lease import LeasedJob
from jobqueue.embedded.binaries import find_binaries
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.store.pool import Connection, connect
from tests.support.programs import ServerProgram, WorkerProgram, run_ctl
from tests.support.store import add_queue, claim, path, settle, status, submit
from tests.support.waiting import eventually

DOCUMENT = Path(__file__).parents[2] / "docs" / "deploy.md"

_FIRST_NEW = "SELECT min(eid) FROM jobqueue.job_event_log WHERE eid > $1"
_FIRST_NEW_TOKEN = "SELECT min(token) FROM jobqueue.job_event_log WHERE token > $1"


@dataclass(frozen=True)
class Numbers:
    """The highest that were given out."""

    event: int
    token: int


@dataclass(frozen=True)
class Restored:
    """A cluster made from a dump, and what the first one had seen by its end."""

    dsn: str
    kept: UUID
    repeated: UUID
    lost: UUID
    dumped: Numbers
    last: Numbers


@pytest_asyncio.fixture
async def restored(database: str, tmp_path: Path) -> AsyncIterator[Restored]:
    """A dump, after which one job ended and another came; restored in another cluster."""
    dump = tmp_path / "jobqueue.dump"
    db = await connect(database)
    await add_queue(db, retry=RetryPolicy(base_delay_s=0.1, max_delay_s=0.1))
    (kept,) = await submit(db, type="echo")
    await settle(db, await _claim(db))
    (repeated,) = await submit(db, type="echo", max_retries=1)
    running = await _claim(db)
    dumped = await _numbers(db)
    await _run("pg_dump", "--format=custom", f"--file={dump}", database)
    await settle(db, running)
    (lost,) = await submit(db, type="echo")
    await claim(db, types=("echo",))
    last = await _numbers(db)
    await db.close()
    with EmbeddedPostgres(tmp_path / "pg") as cluster:
        await _run(
            *("pg_restore", "--exit-on-error", "--no-owner", "--no-privileges"),
            *(f"--dbname={cluster.dsn}", str(dump)),
        )
        yield Restored(cluster.dsn, kept, repeated, lost, dumped, last)


async def test_a_restored_dump_is_whole_runs_on_and_gives_no_number_twice(
    restored: Restored, tmp_path: Path
) -> None:
    db = await asyncpg.connect(restored.dsn)
    for statement in _documented():
        await db.execute(statement)
    server = ServerProgram(restored.dsn, tmp_path, reaper_interval_ms=50, scheduler_interval_ms=50)
    worker = WorkerProgram(restored.dsn, tmp_path, "--queues", "q")
    try:
        server.ready()
        await eventually(
            lambda: _is_done(db, restored.repeated), within_s=45, what="the repetition"
        )
        # Whoever saw the first history up to its fourth event, DONE, sees only what comes after.
        assert await path(db, restored.repeated) == [
            *("PENDING:SUBMITTED", "ASSIGNED:CLAIMED", "RUNNING:STARTED", "FAILED:LEASE_EXPIRED"),
            *("PENDING:RETRY_DUE", "ASSIGNED:CLAIMED", "RUNNING:STARTED", "DONE:COMPLETED"),
        ]
        assert await status(db, restored.kept) == "DONE"
        assert await status(db, restored.lost) is None
        assert await db.fetchval(_FIRST_NEW, restored.dumped.event) > restored.last.event
        assert await db.fetchval(_FIRST_NEW_TOKEN, restored.dumped.token) > restored.last.token
        checked = await asyncio.to_thread(run_ctl, server.address, "doctor")
        assert checked.returncode == 0, checked.stdout.decode()
    finally:
        worker.kill()
        server.kill()
        await db.close()


async def _claim(db: Connection) -> LeasedJob:
    (job,) = await claim(db, types=("echo",), lease_s=5.0)
    return job


async def _numbers(db: Connection) -> Numbers:
    return Numbers(
        await db.fetchval("SELECT last_value FROM jobqueue.event_id_seq"),
        await db.fetchval("SELECT last_value FROM jobqueue.lease_token_seq"),
    )


def _documented() -> list[str]:
    """Return the statements that the document gives for a restored dump."""
    (block,) = re.findall(
        r"```sql\n\s*(SELECT setval.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL
    )
    return [statement for statement in block.split(";") if statement.strip()]


async def _is_done(db: asyncpg.Connection, job_id: UUID) -> bool:
    return await status(db, job_id) == "DONE"


async def _run(program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL's, of the version that the tests run on."""
    ended = await asyncio.create_subprocess_exec(
        find_binaries().folder / program,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await ended.communicate()
    assert ended.returncode == 0, told.decode()
