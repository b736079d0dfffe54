"""Brings the schema to a revision. Safe when several servers start at once (R-10.3)."""

import asyncio

import asyncpg

from jobqueue.errors import FailedPrecondition, Unavailable
from jobqueue.store.faults import translated
from jobqueue.store.hosts import connect_to_any
from jobqueue.store.pool import Db
from jobqueue.store.statements import statement

REVISIONS = ("0001",)
"""What this program brings, oldest first. A test compares it with the folder of migrations."""

_READ_REVISION = statement("read_revision")
_TRIES = 30
_CONNECT_TIMEOUT_S = 3.0


def head() -> str:
    """Return the newest revision that this program knows."""
    return REVISIONS[-1]


def knows(revision: str) -> bool:
    """Tell whether this program brings the revision; a newer program's is unknown to it."""
    return revision in REVISIONS


async def schema_revision(db: Db) -> str | None:
    """Return the revision of the database, None when it was never migrated."""
    with translated():
        try:
            value = await db.fetchval(_READ_REVISION)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            return None
    return str(value) if value else None


async def migrate(dsn: str, revision: str = "head") -> None:
    """Upgrade (or, to an older ``revision``, downgrade) the schema.

    Does nothing when the database is there already, or at a revision newer than this program
    knows: migrations only expand, so this program still works on it. A table that an open
    transaction holds is waited for in short steps. Raises Unavailable when that takes too long
    or the database cannot be reached, Internal when it refuses, and FailedPrecondition when a
    ``revision`` is asked for from one that this program does not know.
    """
    current = await _current(dsn)
    target = head() if revision == "head" else revision
    if current == target or (revision == "head" and current and not knows(current)):
        return
    if current and not knows(current):
        raise FailedPrecondition(f"the schema is at {current!r}, unknown to this version")
    from jobqueue.store.schema_moves import (  # noqa: PLC0415 - loads alembic, for most starts in vain
        downgraded,
        upgraded,
    )

    move = downgraded if target in _before(current) else upgraded
    for _ in range(_TRIES):
        if await asyncio.to_thread(move, dsn, target):
            return
        await asyncio.sleep(1)
    raise Unavailable("a transaction holds a table that the migration needs", reason="LOCKED")


async def _current(dsn: str) -> str | None:
    # As for PgBouncer, which may be what the DSN names: one question needs no settings.
    with translated():
        connection = await connect_to_any(dsn, timeout=_CONNECT_TIMEOUT_S, statement_cache_size=0)
    try:
        return await schema_revision(connection)
    finally:
        await connection.close()


def _before(current: str | None) -> set[str]:
    """Return the revisions that lie before ``current``."""
    if not current or not knows(current):
        return set()
    return {"base", *REVISIONS[: REVISIONS.index(current)]}
