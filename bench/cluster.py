"""The one PostgreSQL of a run: durable, stated, with a fresh database for each cell."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

from jobqueue.embedded.server import EmbeddedPostgres

_MIB = 1024**2
_MOST_BUFFERS_MIB = 2048
_EMPTY = "template1"
_SEGMENTS, _SEGMENT_MIB = 64, 16
_USE_UP = "SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()"
"""A segment without a record would not be left."""

_STATED = """
    SELECT name, current_setting(name) AS setting FROM pg_settings
    WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_level', 'jit',
                   'work_mem', 'effective_cache_size', 'random_page_cost', 'autovacuum',
                   'autovacuum_naptime')
       OR (source NOT IN ('default', 'override', 'client') AND name = ANY ($1::text[]))
    ORDER BY name
"""


def settings() -> dict[str, str]:
    """Return what the cluster is started with: the same for everybody, nothing traded for loss."""
    buffers = min(psutil.virtual_memory().total // _MIB // 4, _MOST_BUFFERS_MIB)
    return {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "shared_buffers": f"{buffers}MB",
        # A checkpoint in the middle of a cell would hit whoever is measured then.
        "max_wal_size": "16GB",
        # A server that has run for a while writes to segments that it has used before. One that is
        # new fills each with zeros first, and everybody's commits wait for that.
        "min_wal_size": f"{_SEGMENTS * _SEGMENT_MIB}MB",
        "checkpoint_timeout": "30min",
        "max_connections": "500",
    }


class Cluster:
    """A PostgreSQL whose files are in ``folder``; it runs from ``start`` to ``stop``."""

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(folder, settings=settings())
        self._admin: asyncpg.Connection | None = None
        self._made = 0

    @property
    def pid(self) -> int:
        """The process below which all of PostgreSQL runs."""
        return self._server.pid

    async def start(self) -> None:
        """Run it, and connect."""
        await asyncio.to_thread(self._server.start)
        self._admin = await asyncpg.connect(self._server.dsn)

    async def stop(self) -> None:
        """Stop it; whoever is connected is cut off. Harmless when it is stopped."""
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()
        await asyncio.to_thread(self._server.stop)

    async def restart(self, outage_s: float) -> None:
        """Stop it for so long; its databases have the same DSNs afterwards.

        Whoever gives up meanwhile leaves it running: the next cell needs it.
        """
        try:
            await self.stop()
            await asyncio.sleep(outage_s)
        finally:
            await self.start()

    async def prepare_wal(self) -> None:
        """Make segments of the WAL that will be used again, 1 GiB in all."""
        for _ in range(_SEGMENTS):
            await self.leave_segment()
        await self._asking.execute("CHECKPOINT")

    async def leave_segment(self) -> None:
        """Go on in the next segment of the WAL, which is made unless there is a used one."""
        await self._asking.execute(_USE_UP)

    async def stated(self) -> Mapping[str, str]:
        """Return every setting that matters, as PostgreSQL itself tells it."""
        rows = await self._asking.fetch(_STATED, list(settings()))
        version = await self._asking.fetchval("SHOW server_version")
        return {"server_version": version, **{row["name"]: row["setting"] for row in rows}}

    async def create(self, template: str = _EMPTY) -> str:
        """Return the DSN of a fresh database, empty or a copy of a template's files."""
        self._made += 1
        name = f"bench_{self._made}"
        source = _database_of(template) if "/" in template else template
        await self._asking.execute(
            f'CREATE DATABASE "{name}" TEMPLATE "{source}" STRATEGY FILE_COPY'
        )
        return _in(self._server.dsn, name)

    async def drop(self, dsn: str) -> None:
        """Drop a database, whoever is still connected."""
        await self._asking.execute(f'DROP DATABASE IF EXISTS "{_database_of(dsn)}" WITH (FORCE)')

    async def rest(self, dsn: str, *, analyze: bool = True) -> None:
        """Vacuum, analyze and write everything out, so that every cell begins alike."""
        if analyze:
            async with connected(dsn) as connection:
                await connection.execute("VACUUM (ANALYZE)")
        await self._asking.execute("CHECKPOINT")

    async def extend(self, extension: str) -> None:
        """Add an extension to all databases that will be made."""
        async with connected(_in(self._server.dsn, _EMPTY)) as template:
            await template.execute(f"CREATE EXTENSION {extension}")

    @property
    def _asking(self) -> asyncpg.Connection:
        assert self._admin is not None, "it is not started"
        return self._admin


def _in(dsn: str, name: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


def _database_of(dsn: str) -> str:
    return urlsplit(dsn).path.removeprefix("/")


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Lend a connection of the harness's own, which plans each query anew."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "bench"})
    try:
        await connection.execute("SET plan_cache_mode = force_custom_plan")
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def running_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Run a new cluster on the disk of ``folder``; nothing is left of it afterwards."""
    with _private(folder) as made:
        cluster = Cluster(made / "pg")
        try:
            await cluster.start()
            await cluster.extend("pg_walinspect")
            await cluster.prepare_wal()
            yield cluster
        finally:
            await cluster.stop()


@contextmanager
def _private(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="cluster-", dir=folder, ignore_cleanup_errors=True) as made:
        # As root the database may run as nobody, who must be able to pass through.
        Path(made).chmod(0o711)
        yield Path(made)
