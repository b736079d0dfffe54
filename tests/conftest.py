"""Fixtures every test may ask for: `pg`, `database`, `conn`; `kube`, an API server of Kubernetes.

The cluster is chosen by the environment: `JQ_TEST_DATABASE_URL`, else a container with
`JQ_TEST_DOCKER=1`, else an embedded one. Store and race tests run again on the system's
PostgreSQL 15 where its programs are found, because 15 to 18 must work, and those of the core of the
product once more through PgBouncer; `--pg` narrows that.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from tests.support import kubernetes_api
from tests.support.pgbouncer import running_pgbouncer
from tests.support.postgres import (
    DEFAULT,
    PG15,
    PG15_BIN,
    PGBOUNCER,
    Cluster,
    PooledCluster,
    close_cluster,
    open_cluster,
    running_postgres,
)

_TESTS = Path(__file__).parent

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
_ON_BOTH = (_TESTS / "store", _TESTS / "races")
_THROUGH_PGBOUNCER = frozenset(
    _TESTS / "store" / f"test_{name}.py"
    for name in (
        "claim",
        "due",
        "migrate",
        "partitions",
        "read",
        "reap",
        "renew",
        "settle",
        "start",
        "stats",
        "submit",
    )
)
"""Of the store tests: submit, claim, renew, settle, reap, promote, lists, figures, migrations."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a developer run the store tests on one PostgreSQL only."""
    parser.addoption(
        "--pg",
        choices=(DEFAULT, PG15, PGBOUNCER, "all"),
        default="all",
        help="which PostgreSQL the store and race tests use (default: all that are found)",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: at the end no process is left alone with it."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run store and race tests once for each PostgreSQL, and some through PgBouncer."""
    if "pg" in metafunc.fixturenames:
        variants = _variants(metafunc.definition, metafunc.config.getoption("--pg"))
        metafunc.parametrize("pg", variants, indirect=True, scope="session")


def _variants(test: pytest.Item, asked: str) -> list[str]:
    if test.path.name == "test_pgbouncer.py":
        return [PGBOUNCER]
    if not any(test.path.is_relative_to(folder) for folder in _ON_BOTH):
        return [DEFAULT]
    possible = [DEFAULT]
    if asked == PG15 or (PG15_BIN / "postgres").exists():
        possible.append(PG15)
    if test.path in _THROUGH_PGBOUNCER and not test.get_closest_marker("direct"):
        possible.append(PGBOUNCER)
    return [variant for variant in possible if asked in {variant, "all"}]


@pytest_asyncio.fixture(scope="session")
async def clusters(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator["Clusters"]:
    """Every cluster of this session, started when first asked for."""
    async with AsyncExitStack() as closing:
        with ExitStack() as servers:
            yield Clusters(tmp_path_factory.mktemp("postgres"), servers, closing)
            await closing.aclose()


class Clusters:
    """Starts each kind of PostgreSQL once, so that changing between them costs nothing."""

    def __init__(self, folder: Path, servers: ExitStack, closing: AsyncExitStack) -> None:
        self._folder = folder
        self._servers = servers
        self._closing = closing
        self._open: dict[str, Cluster] = {}
        self._pooled: PooledCluster | None = None

    async def get(self, variant: str) -> Cluster:
        """Return the cluster, starting and migrating it the first time."""
        return await (self._through_pgbouncer() if variant == PGBOUNCER else self._direct(variant))

    async def _through_pgbouncer(self) -> PooledCluster:
        if self._pooled is None:
            direct = await self._direct(DEFAULT)
            bouncer = self._servers.enter_context(running_pgbouncer(direct.dsn))
            self._pooled = PooledCluster(direct, bouncer)
        return self._pooled

    async def _direct(self, variant: str) -> Cluster:
        if variant not in self._open:
            dsn = self._servers.enter_context(running_postgres(variant, self._folder))
            self._open[variant] = await open_cluster(dsn)
            self._closing.push_async_callback(close_cluster, self._open[variant])
        return self._open[variant]


@pytest_asyncio.fixture(scope="session")
async def pg(request: pytest.FixtureRequest, clusters: Clusters) -> Cluster:
    """The cluster under test."""
    return await clusters.get(request.param)


@pytest_asyncio.fixture
async def database(pg: Cluster) -> AsyncIterator[str]:
    """The DSN of a fresh, migrated database."""
    dsn = await pg.create_database()
    yield dsn
    await pg.drop_database(dsn)


@pytest_asyncio.fixture
async def conn(pg: Cluster, database: str) -> AsyncIterator[asyncpg.Connection]:
    """One plain connection to the fresh database."""
    connection = await asyncpg.connect(database, statement_cache_size=0 if pg.pooled else 100)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def kube(tmp_path: Path) -> AsyncIterator[kubernetes_api.Cluster]:
    """An API server, and the folder that it would mount into a pod."""
    async with kubernetes_api.cluster(tmp_path / "serviceaccount") as cluster:
        yield cluster
