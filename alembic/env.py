"""Runs migrations over asyncpg, safely when several servers start at once.

One transaction holds an advisory lock around everything; the lock dies with the transaction, so
it also works through PgBouncer in transaction mode, where a session lock would leak.
"""

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
from alembic import context
from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from jobqueue.store.hosts import connect_to_any

LOCK_KEY = 0x6A6F6271  # "jobq"
SCHEMA = "jobqueue"


def run(connection: Connection) -> None:
    """Migrate inside the caller's transaction."""
    # lock_timeout also bounds advisory waits: long for the lock, short for the tables after it,
    # because an ALTER that waits behind an open transaction blocks every claim.
    connection.execute(text("SET LOCAL lock_timeout = '60s'"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
    connection.execute(text("SET LOCAL lock_timeout = '2s'"))
    _make_schema(connection)
    context.configure(
        connection=connection,
        version_table_schema=SCHEMA,
        transaction_per_migration=False,
        transactional_ddl=True,
    )
    context.run_migrations()


def _make_schema(connection: Connection) -> None:
    """Make it where it is not: IF NOT EXISTS asks for the right to make it in any case."""
    if connection.scalar(text(f"SELECT to_regnamespace('{SCHEMA}')")) is None:
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))


def _url() -> str:
    return context.config.get_main_option("sqlalchemy.url") or "postgresql+asyncpg://"


def _creator() -> dict[str, Any]:
    """Connect by the product's own DSN when it started us.

    Statements are not kept, and names of prepared ones are random, because PgBouncer may hand us
    a connection on which the counted ones exist.
    """
    names = {"prepared_statement_name_func": lambda: f"__jq_{uuid4()}__"}
    dsn = context.config.attributes.get("dsn")
    if dsn is None:
        return {"connect_args": names}
    return {"connect_args": names, "async_creator": lambda *_, **__: _connect(dsn)}


async def _connect(dsn: str) -> asyncpg.Connection:
    return await connect_to_any(dsn, statement_cache_size=0)


async def main() -> None:
    """Connect as the caller of the migration asked, and migrate."""
    engine = create_async_engine(_url(), poolclass=NullPool, **_creator())
    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()


asyncio.run(main())
