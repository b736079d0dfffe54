"""Brings the schema to a revision. Safe when several servers start at once (R-10.3)."""

import asyncio
import threading
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from jobqueue.errors import Unavailable
from jobqueue.store.faults import connection_lost, sqlstate, translated
from jobqueue.store.pool import Db
from jobqueue.store.statements import statement

_READ_REVISION = statement("read_revision")
_TRIES = 30
_CONNECT_TIMEOUT_S = 3.0
_LOCK_NOT_AVAILABLE = "55P03"
# Alembic keeps the migration that runs in globals of its own.
_ONE_AT_A_TIME = threading.Lock()


def script_location() -> Path:
    """Return the folder of the migrations: in the wheel, or beside the package in a checkout."""
    shipped = Path(str(resources.files("jobqueue"))) / "_alembic"
    return (
        shipped if shipped.is_dir() else Path(str(resources.files("jobqueue"))).parent / "alembic"
    )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def head() -> str:
    """Return the newest revision that this program knows."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


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
    or the database cannot be reached.
    """
    current = await _current(dsn)
    target = head() if revision == "head" else revision
    if current == target or (revision == "head" and current and not knows(current)):
        return
    move = command.downgrade if target in _before(current) else command.upgrade
    for _ in range(_TRIES):
        if await asyncio.to_thread(_moved, move, dsn, target):
            return
        await asyncio.sleep(1)
    raise Unavailable("a transaction holds a table that the migration needs", reason="LOCKED")


async def _current(dsn: str) -> str | None:
    # As for PgBouncer, which may be what the DSN names: one question needs no settings.
    with translated():
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_TIMEOUT_S, statement_cache_size=0)
    try:
        return await schema_revision(connection)
    finally:
        await connection.close()


def knows(revision: str) -> bool:
    """Tell whether this program brings the revision; a newer program's is unknown to it."""
    scripts = ScriptDirectory.from_config(_config())
    return revision in {script.revision for script in scripts.walk_revisions()}


def _before(current: str | None) -> set[str]:
    """Return the revisions that lie before ``current``."""
    if not current or not knows(current):
        return set()
    scripts = ScriptDirectory.from_config(_config())
    older = {script.revision for script in scripts.iterate_revisions(current, "base")}
    return older - {current} | {"base"}


def _moved(move: Callable[[Config, str], None], dsn: str, target: str) -> bool:
    """Migrate in this thread; False when a lock was not to be had."""
    config = _config()
    config.attributes["dsn"] = dsn
    try:
        with _ONE_AT_A_TIME:
            move(config, target)
    except (DBAPIError, asyncpg.PostgresError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        if sqlstate(cause) == _LOCK_NOT_AVAILABLE:
            return False
        if connection_lost(cause):
            raise Unavailable("the database cannot be reached") from error
        raise
    return True
