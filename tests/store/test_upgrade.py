"""A schema that moves under workers of the previous release that are busy (R-10.3)."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobqueue.store import migrate as module
from jobqueue.store import schema_moves
from jobqueue.store.faults import retrying
from jobqueue.store.migrate import migrate, schema_revision
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.store import add_queue, claim, settle, submit
from tests.support.waiting import eventually

NOW, NEXT = module.head(), "9000"
REVISION = f"""
from alembic import op

revision, down_revision, branch_labels, depends_on = "{NEXT}", "{NOW}", None, None
TABLES = ("jobs", "ready", "scheduled", "leases", "finished")


def upgrade() -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE jobqueue.{{table}} ADD COLUMN novelty int NOT NULL DEFAULT 7")


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE jobqueue.{{table}} DROP COLUMN novelty")
"""
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
WORKERS = 4


@pytest.fixture
def tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A release with a revision more, which touches every hot table; and how its tries went."""
    folder = tmp_path / "alembic"
    shutil.copytree(schema_moves.script_location(), folder)
    (folder / "versions" / "next.py").write_text(REVISION)
    monkeypatch.setattr(schema_moves, "script_location", lambda: folder)
    monkeypatch.setattr(module, "REVISIONS", (*module.REVISIONS, NEXT))
    went: list[bool] = []
    moved = schema_moves._moved

    def noted(*arguments: Any) -> bool:
        went.append(moved(*arguments))
        return went[-1]

    monkeypatch.setattr(schema_moves, "_moved", noted)
    return went


@asynccontextmanager
async def busy(another: Connect, done: list[int]) -> AsyncIterator[None]:
    """Let workers submit, claim and settle for as long as the block lasts; none may fail."""
    over = asyncio.Event()

    async def work(number: int) -> None:
        db = await another()
        while not over.is_set():
            # As programs do: of two who wait for each other one is asked to try again.
            await retrying(lambda: submit(db, 2))
            for job in await retrying(lambda: claim(db, 2, worker=number)):
                ended = partial(settle, db, job, worker=number)
                assert await retrying(ended) == "settled"
                done.append(number)
            await asyncio.sleep(0.01)  # busy, and not all that there is

    async with asyncio.TaskGroup() as workers:
        for number in range(1, 1 + WORKERS):
            workers.create_task(work(number))
        yield
        over.set()


@pytest.mark.direct
async def test_workers_of_before_work_on_while_the_schema_moves_up_and_down(
    database: str, db: Connection, another: Connect, tries: list[bool]
) -> None:
    await add_queue(db)
    done: list[int] = []

    async def all_work() -> None:
        before = len(done)
        await eventually(
            lambda: _has(set(done[before:]), WORKERS), within_s=60, what="work of every worker"
        )

    async with busy(another, done):
        holder = await another()
        async with holder.transaction():
            await holder.execute("SELECT FROM jobqueue.finished LIMIT 1")
            moving = asyncio.create_task(migrate(database))
            await eventually(lambda: _has(tries, 1), within_s=60, what="a try in vain")
            await all_work()
        await moving
        await all_work()
        assert await schema_revision(db) == NEXT
        await migrate(database, NOW)
        await all_work()
    assert tries[0] is False
    assert tries[-1] is True
    assert await schema_revision(db) == NOW


async def _has(found: list[bool] | set[int], count: int) -> bool:
    return len(found) >= count


@pytest.mark.direct
async def test_a_migration_that_deadlocks_with_a_worker_is_tried_again(
    database: str, db: Connection, another: Connect, tries: list[bool]
) -> None:
    holder = await another()
    # Of the two it is the migration that gives in, however late the worker comes.
    await holder.execute("SET deadlock_timeout = '1h'")
    async with holder.transaction():
        await holder.execute("LOCK TABLE jobqueue.leases IN ROW EXCLUSIVE MODE")
        moving = asyncio.create_task(migrate(database))
        await eventually(lambda: db.fetchval(WAITING), within_s=60, what="a migration that waits")
        await holder.execute("LOCK TABLE jobqueue.jobs IN ROW EXCLUSIVE MODE")
    await moving
    assert tries == [False, True]
    assert await schema_revision(db) == NEXT
