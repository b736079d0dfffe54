"""Real PostgreSQL for tests: one cluster a session, one migrated database a test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from jobqueue.embedded.server import EmbeddedPostgres
from tests.support.pgbouncer import PgBouncer

DEFAULT = "default"
PG15 = "pg15"
PGBOUNCER = "pgbouncer"
PG15_BIN = Path("/usr/lib/postgresql/15/bin")
_SETTINGS = {"max_prepared_transactions": "4"}  # off by default, and others may use them
_IMAGE = "postgres:18-alpine"
_MEMORY, _MEMORY_NEEDED = Path("/dev/shm"), 2 * 1024**3


class Cluster:
    """A running PostgreSQL and the databases this session made on it.

    ``pooled`` says that its DSNs lead through a PgBouncer in transaction mode.
    """

    pooled = False

    def __init__(self, admin: asyncpg.Connection, dsn: str, template: str) -> None:
        self.admin = admin
        self.dsn = dsn
        self.template = template
        self._made = 0

    async def create_database(self) -> str:
        """Return the DSN of a fresh, migrated database."""
        self._made += 1
        name = f"{self.template}_{self._made}"
        # Copying files instead of logging blocks takes a third of the time (PostgreSQL 15 and up).
        await self.admin.execute(
            f'CREATE DATABASE "{name}" TEMPLATE "{self.template}" STRATEGY FILE_COPY'
        )
        return with_database(self.dsn, name)

    async def drop_database(self, dsn: str) -> None:
        """Drop it, whoever is still connected: a test of killed programs leaves some behind."""
        name = database_of(dsn)
        await self.admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


class PooledCluster(Cluster):
    """A cluster seen through a PgBouncer. Only databases are made and dropped directly."""

    pooled = True

    def __init__(self, direct: Cluster, bouncer: PgBouncer) -> None:
        super().__init__(direct.admin, bouncer.dsn("postgres"), direct.template)
        self.bouncer = bouncer
        self.direct = direct

    async def create_database(self) -> str:
        """Return the DSN of a fresh, migrated database."""
        return with_database(self.dsn, database_of(await self.direct.create_database()))

    async def drop_database(self, dsn: str) -> None:
        """Drop it. Raises AssertionError when nothing that was done in it came through here."""
        passed = self.bouncer.transactions(database_of(dsn))
        await self.direct.drop_database(dsn)
        assert passed > 0, "the test went past PgBouncer"


async def open_cluster(dsn: str) -> Cluster:
    """Connect and make the migrated template by the product's own migration."""
    # Here, because unit tests share the fixtures and need not pay for alembic.
    from jobqueue.store.migrate import migrate  # noqa: PLC0415

    admin = await asyncpg.connect(dsn)
    template = f"jq_test_{os.getpid()}"
    await admin.execute(f'DROP DATABASE IF EXISTS "{template}"')
    await admin.execute(f'CREATE DATABASE "{template}"')
    await migrate(with_database(dsn, template))
    return Cluster(admin, dsn, template)


async def close_cluster(cluster: Cluster) -> None:
    """Remove the template: the cluster may outlive this session."""
    await cluster.drop_database(with_database(cluster.dsn, f"jq_test_{os.getpid()}"))
    await cluster.admin.close()


@contextmanager
def running_postgres(variant: str, folder: Path) -> Iterator[str]:
    """Yield the DSN of the PostgreSQL the environment asks for, by default an embedded one.

    An embedded one is kept in memory where there is room, otherwise in ``folder``.
    """
    given = os.environ.get("JQ_TEST_DATABASE_URL")
    if variant == PG15:
        with _embedded(folder, PG15_BIN) as dsn:
            yield dsn
    elif given:
        yield given
    elif os.environ.get("JQ_TEST_DOCKER") == "1":
        with _container() as dsn:
            yield dsn
    else:
        with _embedded(folder, None) as dsn:
            yield dsn


@contextmanager
def _embedded(folder: Path, bin_dir: Path | None) -> Iterator[str]:
    """A database a test writes gigabytes that nobody reads again: a disk would be the brake."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _MEMORY_NEEDED
    with (
        TemporaryDirectory(prefix="jobqueue-test-", dir=_MEMORY if roomy else folder) as made,
        EmbeddedPostgres(
            Path(made) / "pg", durable=False, bin_dir=bin_dir, settings=_SETTINGS
        ) as server,
    ):
        yield server.dsn


@contextmanager
def _container() -> Iterator[str]:
    # Here, because most sessions have no Docker and need not pay for the import.
    from testcontainers.postgres import PostgresContainer  # noqa: PLC0415

    with PostgresContainer(_IMAGE, driver=None) as container:
        yield container.get_connection_url()


def with_database(dsn: str, name: str) -> str:
    """Return `dsn` with another database."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


def database_of(dsn: str) -> str:
    """Return the name of the database of a DSN."""
    return urlsplit(dsn).path.removeprefix("/")
