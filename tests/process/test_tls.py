"""TLS between a real server and our clients: each side refuses who cannot prove itself (R-9.1)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, Client, JobSpec, Tls
from jobqueue.errors import Internal, SettingsError, Unavailable
from jobqueue.rpc.certificates import CERT, KEY, TlsFiles
from jobqueue.rpc.tls import ServerTls
from tests.support.certificates import Authority, Pair, past, settings
from tests.support.facade import serving

REFUSED = "it may want TLS, or a client certificate that it trusts"
FAILS_ONCE = "unserved"
"""Deleting this queue is not repeated by the client, so that a refusal is told at once."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "other")


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.server()


@pytest_asyncio.fixture
async def port(database: str, authority: Authority, pair: Pair) -> AsyncIterator[int]:
    """The port of a server that wants certificates of clients."""
    async with serving(database, **settings(pair, authority.path)) as facade:
        yield facade.port


async def refusal(port: int, tls: Tls | None, host: str = "localhost") -> str:
    async with AsyncClient(f"{host}:{port}", tls=tls) as client:
        with pytest.raises(Unavailable) as caught:
            await client.delete_queue(FAILS_ONCE)
    assert f"cannot reach {host}:{port}" in caught.value.message
    return caught.value.message


async def test_who_has_a_certificate_of_the_ca_may_do_everything(
    port: int, authority: Authority
) -> None:
    tls = authority.tls(authority.issue("client"))
    async with AsyncClient(f"localhost:{port}", tls=tls) as client:
        made = await client.submit(JobSpec("default", b"x"))
        assert (await client.get(made.job_id)).payload == b"x"
        await client.create_queue("mine")


async def test_the_synchronous_client_speaks_tls_too(port: int, authority: Authority) -> None:
    tls = authority.tls(authority.issue("client"))

    def ask() -> str:
        with Client(f"127.0.0.1:{port}", tls=tls) as client:
            return client.version().version

    assert await asyncio.to_thread(ask)


async def test_clients_without_a_certificate_of_the_ca_are_refused(
    port: int, authority: Authority, other: Authority
) -> None:
    foreign = other.issue("foreign")
    expired = authority.issue("expired", until=past())
    for tls in (None, authority.tls(), authority.tls(foreign), authority.tls(expired)):
        assert "may want TLS, or a client certificate that it trusts" in await refusal(port, tls)


async def test_without_a_ca_clients_need_no_certificate(
    database: str, pair: Pair, authority: Authority
) -> None:
    async with serving(database, **settings(pair)) as facade:
        async with AsyncClient(f"localhost:{facade.port}", tls=authority.tls()) as client:
            assert (await client.version()).version
        assert "may want TLS" in await refusal(facade.port, None)


@asynccontextmanager
async def answering(credentials: grpc.ServerCredentials | None) -> AsyncIterator[int]:
    """Serve nothing: who gets in is told that there is no such method."""
    server = grpc.aio.server()
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    yield port
    await server.stop(0)


def identity(pair: Pair, authority: Authority) -> grpc.ServerCredentials:
    """Serve even what our own server would not start with."""
    files = TlsFiles(pair.cert, pair.key, authority.path)
    return ServerTls(files, lambda: datetime.now(UTC) - timedelta(days=30)).credentials()


async def test_a_client_refuses_a_server_that_is_not_the_one_it_wants(
    authority: Authority, other: Authority, pair: Pair
) -> None:
    own = authority.issue("client")
    async with answering(identity(pair, authority)) as port:
        with pytest.raises(Internal, match="UNIMPLEMENTED"):
            async with AsyncClient(f"localhost:{port}", tls=authority.tls(own)) as client:
                await client.delete_queue(FAILS_ONCE)
        told = await refusal(port, Tls(other.path, own.cert, own.key))
        assert "no CA that is trusted here" in told
    async with answering(identity(authority.issue("elsewhere.example"), authority)) as port:
        assert "for another host name" in await refusal(port, authority.tls(own))
    async with answering(identity(authority.server("old", until=past()), authority)) as port:
        assert "certificate has expired" in await refusal(port, authority.tls(own))


async def test_a_client_that_speaks_tls_to_a_server_without_it_is_told(
    authority: Authority,
) -> None:
    async with answering(None) as port:
        assert "the server does not speak TLS" in await refusal(port, authority.tls())


async def test_a_client_with_a_key_of_another_certificate_is_told(
    authority: Authority, pair: Pair
) -> None:
    wrong = Pair(authority.issue("a").cert, authority.issue("b").key)
    async with answering(identity(pair, authority)) as port:
        assert "do not go together" in await refusal(port, authority.tls(wrong))


async def test_new_files_count_for_new_connections_and_cut_no_old_one(
    port: int, authority: Authority, other: Authority, pair: Pair
) -> None:
    own = authority.issue("client")
    address, old_ca = f"localhost:{port}", authority.path.read_bytes()
    kept = Path(authority.path.parent / "old-ca.pem")
    kept.write_bytes(old_ca)
    async with AsyncClient(address, tls=authority.tls(own)) as connected:
        made = await connected.submit(JobSpec("default"))
        watching = connected.watch(made.job_id)
        first = await anext(watching)
        authority.path.write_bytes(other.path.read_bytes())
        pair.become(other.server("next"))
        async with AsyncClient(address, tls=other.tls(other.issue("new"))) as fresh:
            assert (await fresh.get(made.job_id)).status == first.status
        assert "no CA that is trusted here" in await refusal(port, Tls(kept, own.cert, own.key))
        mine = Tls(other.path, own.cert, own.key)
        assert "client certificate that it trusts" in await refusal(port, mine)
        await connected.cancel(made.job_id)
        assert [job.status async for job in watching][-1] == "DEAD_LETTERED"


async def test_a_client_whose_certificate_ended_takes_up_the_next_without_being_made_again(
    port: int, authority: Authority, other: Authority, pair: Pair, tmp_path: Path
) -> None:
    own, trusted = authority.issue("client", until=past()), tmp_path / "trusted.pem"
    trusted.write_bytes(authority.path.read_bytes())
    address, tls = f"localhost:{port}", Tls(trusted, own.cert, own.key)
    async with AsyncClient(address, tls=tls) as client:
        with Client(address, tls=tls) as blocking:
            with pytest.raises(Unavailable, match=REFUSED):
                await client.delete_queue(FAILS_ONCE)
            with pytest.raises(Unavailable, match=REFUSED):
                await asyncio.to_thread(blocking.delete_queue, FAILS_ONCE)
            for file in (trusted, authority.path):
                file.write_bytes(other.path.read_bytes())
            pair.become(other.server("next"))
            own.become(other.issue("renewed"))
            assert await client.version() == await asyncio.to_thread(blocking.version)


async def test_files_that_cannot_be_served_leave_the_old_ones_in_force(
    port: int, authority: Authority, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    tls = authority.tls(authority.issue("client"))
    pair.key.write_text("-----BEGIN PRIVATE KEY-----\nhalf")
    for _ in range(3):
        async with AsyncClient(f"localhost:{port}", tls=tls) as client:
            assert (await client.version()).version
    told = [r for r in caplog.records if "the old ones stay" in r.getMessage()]
    assert len(told) == 1
    assert "half" not in caplog.text


async def test_a_server_does_not_start_with_files_that_cannot_be_served(
    database: str, authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    wrong = Pair(tmp_path / "none.pem", authority.server("b").key)
    for files, keys in ((wrong, [CERT]), (Pair(pair.cert, wrong.key), [KEY])):
        with pytest.raises(SettingsError) as caught:
            async with serving(database, **settings(files)):
                pass
        assert [fault.key for fault in caught.value.faults] == keys
