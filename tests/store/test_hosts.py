"""A database that has several hosts: which of them is used, and when another one is."""

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio

from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import Unavailable
from jobqueue.store.faults import translated
from jobqueue.store.hosts import each_host
from jobqueue.store.migrate import migrate
from jobqueue.store.pool import connect, create_pool
from tests.support.store import add_queue
from tests.support.waiting import HANG_S, eventually

READ_WRITE = "target_session_attrs=read-write"
READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = on"
WRITABLE = "ALTER SYSTEM RESET default_transaction_read_only"


@pytest.mark.parametrize(
    ("dsn", "hosts"),
    [
        ("postgresql://u:p@one:1/d?sslmode=require", None),
        ("postgresql://u@/d?host=/run&port=1", None),
        ("postgresql:///d", None),
        (
            "postgresql://u:p%2C@one:1,[::1]:2/d?sslmode=require",
            [
                f"postgresql://u:p%2C@one:1/d?{READ_WRITE}&sslmode=require",
                f"postgresql://u:p%2C@[::1]:2/d?{READ_WRITE}&sslmode=require",
            ],
        ),
        (
            "postgresql://u@/d?host=one,/run&port=1,2",
            [
                f"postgresql://u@/d?{READ_WRITE}&host=one&port=1",
                f"postgresql://u@/d?{READ_WRITE}&host=/run&port=2",
            ],
        ),
        (
            "postgresql:///d?host=one,two&port=1",
            [
                f"postgresql:///d?{READ_WRITE}&host=one&port=1",
                f"postgresql:///d?{READ_WRITE}&host=two&port=1",
            ],
        ),
        (
            "postgresql://one,two/d?target_session_attrs=any",
            [
                "postgresql://one/d?target_session_attrs=any",
                "postgresql://two/d?target_session_attrs=any",
            ],
        ),
    ],
)
def test_each_of_several_hosts_is_asked_to_take_writes(dsn: str, hosts: list[str] | None) -> None:
    assert each_host(dsn) == (hosts or [dsn])


def test_what_the_environment_asks_of_a_host_is_left_to_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "any")
    assert each_host("postgresql://one,two/d") == ["postgresql://one/d", "postgresql://two/d"]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EmbeddedPostgres]]:
    folders = [tmp_path_factory.mktemp("hosts") / name for name in ("one", "other")]
    with (
        EmbeddedPostgres(folders[0] / "pg", durable=False) as one,
        EmbeddedPostgres(folders[1] / "pg", durable=False) as other,
    ):
        yield [one, other]


@pytest_asyncio.fixture
async def pair(clusters: list[EmbeddedPostgres]) -> AsyncIterator[list[EmbeddedPostgres]]:
    """Two hosts, the first of which takes writes."""
    await turn(clusters[0], WRITABLE)
    await turn(clusters[1], READ_ONLY)
    yield clusters


async def turn(cluster: EmbeddedPostgres, statement: str) -> None:
    """Let new sessions take writes, or refuse them as those of a standby do."""
    wanted = "on" if statement == READ_ONLY else "off"
    connection = await connect(cluster.dsn, connect_timeout_s=HANG_S)
    await connection.execute(statement)
    await connection.execute("SELECT pg_reload_conf()")

    async def turned() -> bool:
        return bool(await connection.fetchval("SHOW default_transaction_read_only") == wanted)

    await eventually(turned, what=statement)
    await connection.close()


def listed(first: tuple[str, str], *clusters: EmbeddedPostgres) -> str:
    """Return one DSN for a host and port, and those of clusters after it."""
    parts = urlsplit(clusters[0].dsn)
    places = [first, *map(place, clusters)]
    hosts, ports = (",".join(words) for words in zip(*places, strict=True))
    return parts._replace(query=f"host={hosts}&port={ports}").geturl()


def place(cluster: EmbeddedPostgres) -> tuple[str, str]:
    query = parse_qs(urlsplit(cluster.dsn).query)
    return query["host"][0], query["port"][0]


async def test_a_host_that_answers_nothing_costs_the_time_of_one_attempt(
    pair: list[EmbeddedPostgres],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = listed(("127.0.0.1", str(silent.getsockname()[1])), pair[0])
        connection = await connect(dsn, connect_timeout_s=3.0)
        assert await connection.fetchval("SHOW port") == place(pair[0])[1]
        await connection.close()


async def test_after_a_failover_the_other_host_is_written_to(
    pair: list[EmbeddedPostgres],
) -> None:
    one, other = pair
    dsn = listed(place(other), one)  # the standby first
    await migrate(dsn)
    pool = await create_pool(dsn, size=2, connect_timeout_s=HANG_S)
    try:
        await add_queue(pool)
        await turn(one, READ_ONLY)
        await turn(other, WRITABLE)
        await migrate(dsn)  # as replication would
        with pytest.raises(Unavailable), translated():
            await add_queue(pool, "refused")

        async def added() -> bool:
            with contextlib.suppress(Unavailable), translated():
                await add_queue(pool, "taken")
                return True
            return False

        await eventually(added, what="a write at the new primary")
        assert await pool.fetchval("SHOW port") == place(other)[1]
    finally:
        await pool.close()
