"""bootstrap.sql of the Terraform files makes roles with which the product works."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import pytest_asyncio

from jobqueue.embedded.binaries import find_binaries
from jobqueue.store.migrate import migrate
from jobqueue.store.pool import connect
from tests.deploy.support_terraform import ROOT
from tests.support.postgres import Cluster, with_database
from tests.support.store import add_queue, submit
from tests.support.waiting import HANG_S

ADMIN = "jq_admin"
DATABASE = "bootstrapped"
SCRIPT = ROOT / "bootstrap.sql"


@pytest_asyncio.fixture
async def empty(pg: Cluster) -> AsyncIterator[str]:
    """The DSN of a database of an administrator like RDS's: no superuser, and may make roles."""
    await pg.admin.execute(f"CREATE ROLE {ADMIN} LOGIN CREATEROLE CREATEDB")
    await pg.admin.execute(f"GRANT pg_monitor TO {ADMIN} WITH ADMIN OPTION")
    await pg.admin.execute(f"CREATE DATABASE {DATABASE} OWNER {ADMIN}")
    dsn = with_database(pg.dsn, DATABASE)
    yield dsn
    await pg.drop_database(dsn)
    for role in ("jq_worker", "jq_user", ADMIN):
        await pg.admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_server_migrates_and_serves_as_the_role_it_makes(empty: str) -> None:
    await _bootstrap(empty, "first")
    server = _as(empty, "jq_user")
    await migrate(server)
    connection = await connect(server, connect_timeout_s=HANG_S)
    await add_queue(connection)
    await submit(connection, 1)
    assert await connection.fetchval("SELECT pg_has_role('pg_read_all_stats', 'USAGE')")
    await connection.close()


async def test_run_again_it_changes_the_passwords_and_nothing_else(empty: str, pg: Cluster) -> None:
    await _bootstrap(empty, "first")
    before = await _passwords(pg)
    await _bootstrap(empty, "second")
    after = await _passwords(pg)
    assert set(before) == set(after) == {"jq_user", "jq_worker"}
    assert all(before[role] != after[role] for role in after)


async def _bootstrap(dsn: str, password: str) -> None:
    """Run the script as its head says, as the administrator."""
    psql = await asyncio.create_subprocess_exec(
        *(find_binaries().folder / "psql", _as(dsn, ADMIN), "--no-psqlrc", "--quiet"),
        *("-v", f"server_password={password}", "-v", f"worker_password={password}"),
        *("-f", SCRIPT),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await psql.communicate()
    assert psql.returncode == 0, told.decode()


async def _passwords(pg: Cluster) -> dict[str, str]:
    rows = await pg.admin.fetch(
        "SELECT rolname, rolpassword FROM pg_authid"
        " WHERE rolname IN ('jq_user', 'jq_worker') AND rolpassword IS NOT NULL"
    )
    return {row["rolname"]: row["rolpassword"] for row in rows}


def _as(dsn: str, user: str) -> str:
    parts = urlsplit(dsn)
    hosts = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{hosts}"))
