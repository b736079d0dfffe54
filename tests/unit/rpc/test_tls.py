"""Which identity is served when files change, and what is said about it."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobqueue.rpc.certificates import TlsFiles
from jobqueue.rpc.tls import CertificateWatch, ServerTls, validity_fault
from tests.support.certificates import Authority, Pair, past

STAYS = "new certificate files cannot be used; the old ones stay"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.server()


@pytest.fixture
def tls(authority: Authority, pair: Pair) -> ServerTls:
    return ServerTls(TlsFiles(pair.cert, pair.key, authority.path))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_new_files_are_served_and_the_same_ones_not_read_again(
    authority: Authority, pair: Pair, tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = tls.refresh()
    assert tls.refresh() is first
    pair.become(authority.server("next"))
    second = tls.refresh()
    assert second.chain_pem == pair.cert.read_bytes() != first.chain_pem
    assert tls.refresh() is second
    assert said(caplog) == ["certificates reloaded"]


def test_files_between_two_pairs_change_nothing_and_are_told_once(
    authority: Authority, pair: Pair, tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, new = tls.refresh(), authority.server("next")
    whole = new.cert.read_bytes()
    pair.cert.write_bytes(whole[: len(whole) // 2])
    assert tls.refresh() is tls.refresh() is first
    assert said(caplog) == [STAYS]
    pair.cert.write_bytes(whole)  # its key is still the old one
    assert tls.refresh() is first
    pair.key.write_bytes(new.key.read_bytes())
    assert tls.refresh().chain_pem == whole
    assert said(caplog) == [STAYS, STAYS, "certificates reloaded"]


def test_files_that_are_gone_or_expired_change_nothing(
    authority: Authority, pair: Pair, tls: ServerTls
) -> None:
    first = tls.refresh()
    pair.cert.unlink()
    assert tls.refresh() is first
    pair.become(authority.server("old", until=past()))
    assert tls.refresh() is first


@pytest.mark.parametrize("old_days", [2, 30])
def test_a_certificate_that_is_not_valid_yet_waits_as_long_as_the_old_one_is(
    authority: Authority, pair: Pair, old_days: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = [datetime.now(UTC)]
    pair.become(authority.server("old", until=clock[0] + timedelta(days=old_days, hours=-1)))
    tls = ServerTls(TlsFiles(pair.cert, pair.key), lambda: clock[0])
    old = tls.refresh()
    new = authority.server("early", until=clock[0] + timedelta(days=365 + 4))
    pair.become(new)
    for day in range(5):
        served = tls.refresh()
        assert (served is old) == (day < min(old_days, 4))
        clock[0] += timedelta(days=1, seconds=1)
    assert served.chain_pem == new.cert.read_bytes()
    assert said(caplog) == ["the new certificate waits until it is valid", "certificates reloaded"]


@pytest.mark.parametrize(
    ("days_left", "words"),
    [(400, "not valid yet"), (364, None), (15, None), (13, "within 14 days"), (-1, "has expired")],
)
def test_dates_are_judged(authority: Authority, days_left: int, words: str | None) -> None:
    end = datetime.now(UTC) + timedelta(days=100)
    pair = authority.issue("year", "localhost", until=end)
    identity = ServerTls(TlsFiles(pair.cert, pair.key)).refresh()
    fault = validity_fault(identity, identity.valid.end - timedelta(days=days_left))
    assert (words or "None") in str(fault)


async def test_the_watch_warns_once_in_each_state_and_stops_after_a_renewal(
    authority: Authority, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    clock = [datetime.now(UTC)]
    pair.become(authority.server("short", until=clock[0] + timedelta(days=30)))
    watch = CertificateWatch(ServerTls(TlsFiles(pair.cert, pair.key)), lambda: clock[0])
    for days in (0, 20, 0, 0, 11, 0):
        clock[0] += timedelta(days=days)
        await watch.turn()
    messages = ["expires within 14 days", "has expired: clients refuse it"]
    assert said(caplog) == [f"the server's certificate {words}" for words in messages]
    pair.become(authority.server("renewed", until=clock[0] + timedelta(days=300)))
    await watch.turn()
    assert len(said(caplog)) == len(messages)
