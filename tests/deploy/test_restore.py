"""What docs/deploy.md says of a restored dump, on two real clusters."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit, urlunsplit
from uuid import UUID, uuid4

import asyncpg
import pytest_asyncio

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.lease import LeasedJob
from jobqueue.embedded.binaries import find_binaries
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.store.pool import Connection, connect
from tests.support.postgres import with_database
from tests.support.programs import ServerProgram, WorkerProgram, run_ctl
from tests.support.roles import worker_role
from tests.support.store import add_queue, claim, path, settle, status, submit
from tests.support.waiting import HANG_S, eventually

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
    """A cluster with a restored dump, and what the first one had seen by its end."""

    dsn: str
    kept: UUID
    repeated: UUID
    lost: UUID
    dumped: Numbers
    last: Numbers

    def of(self, role: str) -> str:
        """Return the DSN of the restored database for a role."""
        parts = urlsplit(with_database(self.dsn, "jobqueue"))
        return urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}"))


@pytest_asyncio.fixture
async def granted(database: str) -> AsyncIterator[str]:
    """A database with the documented grants, to a role that no other cluster has."""
    role = f"jq_worker_{uuid4().hex}"
    db = await connect(database, connect_timeout_s=HANG_S)
    await db.execute(worker_role(role))
    yield database
    await db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    await db.close()


@pytest_asyncio.fixture
async def restored(granted: str, tmp_path: Path) -> AsyncIterator[Restored]:
    """A dump, after which one job ended and another came; restored in another cluster."""
    dump = tmp_path / "jobqueue.dump"
    db = await connect(granted, connect_timeout_s=HANG_S)
    await add_queue(db, retry=RetryPolicy(base_delay_s=0.1, max_delay_s=0.1))
    (kept,) = await submit(db, type="echo")
    await settle(db, await _claim(db))
    (repeated,) = await submit(db, type="echo", max_retries=1)
    running = await _claim(db)
    dumped = await _numbers(db)
    await _run("pg_dump", "--format=custom", f"--file={dump}", granted)
    await settle(db, running)
    (lost,) = await submit(db, type="echo")
    await claim(db, types=("echo",))
    last = await _numbers(db)
    await db.close()
    with EmbeddedPostgres(tmp_path / "pg") as cluster:
        await _restore(cluster.dsn, dump)
        yield Restored(cluster.dsn, kept, repeated, lost, dumped, last)


async def _restore(dsn: str, dump: Path) -> None:
    """Do what the document says, from the role of the server to that of the workers."""
    for statement in ("CREATE ROLE jq_user LOGIN", "DROP DATABASE jobqueue"):
        await _execute(with_database(dsn, "postgres"), statement)
    (commands,) = re.findall(r"\n( +createdb .*?)\n\n", DOCUMENT.read_text("utf-8"), re.DOTALL)
    place = {f"PG{key.upper()}": value for key, value in parse_qsl(urlsplit(dsn).query)}
    for command in commands.splitlines():
        program, *arguments = command.replace(dump.name, str(dump)).split()
        await _run(program, *arguments, PGUSER="postgres", **place)
    await _execute(with_database(dsn, "jobqueue"), worker_role())


async def _execute(dsn: str, script: str) -> None:
    db = await asyncpg.connect(dsn)
    await db.execute(script)
    await db.close()


async def test_a_restored_dump_is_whole_runs_on_and_gives_no_number_twice(
    restored: Restored, tmp_path: Path
) -> None:
    db = await asyncpg.connect(restored.of("jq_user"))
    for statement in _documented():
        await db.execute(statement)
    server = ServerProgram(
        restored.of("jq_user"), tmp_path, reaper_interval_ms=50, scheduler_interval_ms=50
    )
    worker = WorkerProgram(restored.of("jq_worker"), tmp_path, "--queues", "q")
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


async def _run(program: str, *arguments: str, **environment: str) -> None:
    """Run a program of PostgreSQL's, of the version that the tests run on."""
    ended = await asyncio.create_subprocess_exec(
        find_binaries().folder / program,
        *arguments,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await ended.communicate()
    assert ended.returncode == 0, told.decode()
