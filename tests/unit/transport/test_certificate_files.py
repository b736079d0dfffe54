"""When a caller takes new certificate files, and when it keeps what it has."""

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificates

from jobqueue.transport import Route, Ways
from jobqueue.transport.certificates import CertificateFiles
from jobqueue.transport.pem import Validity, validity_of
from tests.support.certificates import Authority, Pair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("worker")


@pytest.fixture
def told() -> list[str]:
    """What was said to be wrong with new files, empty where nothing was."""
    return []


@pytest.fixture
def files(authority: Authority, pair: Pair, told: list[str]) -> CertificateFiles:
    return CertificateFiles(authority.tls(pair), told.append)


def test_new_files_are_taken_once(
    authority: Authority, pair: Pair, files: CertificateFiles, told: list[str]
) -> None:
    assert files.renewed() is None
    pair.become(authority.issue("next"))
    assert files.renewed() is not None
    assert files.renewed() is None
    assert told == [""]


def test_a_new_ca_alone_is_new(
    authority: Authority, files: CertificateFiles, tmp_path: Path, told: list[str]
) -> None:
    authority.path.write_bytes(Authority(tmp_path, "other").path.read_bytes())
    assert files.renewed() is not None
    assert told == [""]


def test_a_certificate_whose_key_has_not_come_yet_is_told_once_and_taken_with_it(
    authority: Authority, pair: Pair, files: CertificateFiles, told: list[str]
) -> None:
    new = authority.issue("next")
    pair.cert.write_bytes(new.cert.read_bytes())
    assert files.renewed() is files.renewed() is None
    (fault,) = told
    assert "mismatch" in fault.lower()
    pair.key.write_bytes(new.key.read_bytes())
    assert files.renewed() is not None


@pytest.mark.parametrize("old_days", [2, 30])
def test_a_certificate_that_is_not_valid_yet_waits_as_long_as_the_old_one_is(
    authority: Authority, pair: Pair, told: list[str], old_days: int
) -> None:
    clock = [datetime.now(UTC)]
    pair.become(authority.issue("old", until=clock[0] + timedelta(days=old_days, hours=-1)))
    files = CertificateFiles(authority.tls(pair), told.append, lambda: clock[0])
    pair.become(authority.issue("early", until=clock[0] + timedelta(days=365 + 4)))
    waited = 0
    while files.renewed() is None:
        waited += 1
        clock[0] += timedelta(days=1, seconds=1)
    assert waited == min(old_days, 4)
    assert ["not valid before" in fault for fault in told] == [True, False]


@pytest.mark.parametrize("years", [0, 40])
def test_the_time_of_a_certificate_is_read_as_a_library_reads_it(
    authority: Authority, years: int
) -> None:
    """The first of a chain, also beyond 2049, where such times are written in another way."""
    until = datetime.now(UTC) + timedelta(days=366 * years)
    pem = b"Bag Attributes\n" + authority.issue("any", until=until).cert.read_bytes()
    (read, *_) = load_pem_x509_certificates(pem)
    assert validity_of(pem) == Validity(read.not_valid_before_utc, read.not_valid_after_utc)


@pytest.mark.parametrize("part", ["cert", "key", "ca"])
def test_files_that_are_cut_short_or_gone_change_nothing(
    authority: Authority, pair: Pair, files: CertificateFiles, told: list[str], part: str
) -> None:
    path = authority.path if part == "ca" else getattr(pair, part)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert files.renewed() is None
    path.unlink()
    assert files.renewed() is None
    assert all(told)
    assert len(told) == 2


def test_a_key_with_a_password_is_refused_and_nobody_asked_for_it(
    pair: Pair, files: CertificateFiles, told: list[str]
) -> None:
    key = load_pem_private_key(pair.key.read_bytes(), password=None)
    locked = (Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    pair.key.write_bytes(key.private_bytes(*locked))
    assert files.renewed() is None
    assert all(told)


class NoAnswer(grpc.RpcError):
    """A call that did not reach the server."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "failed to connect to all addresses; last error: UNKNOWN: Socket closed"

    def trailing_metadata(self) -> tuple[()]:
        return ()


@pytest.fixture
def ways(authority: Authority, pair: Pair) -> Ways[int]:
    """Ways of which each connection is a number."""
    numbers = count(1)
    return Ways(Route(tls=authority.tls(pair)), lambda _: next(numbers))


def test_new_files_are_not_tried_while_the_server_is_reached(
    authority: Authority, pair: Pair, ways: Ways[int]
) -> None:
    ways.end(ways.begin())
    pair.become(authority.issue("next"))
    assert ways.begin().connection == 1
    assert "cannot reach" in ways.failed(NoAnswer()).message
    assert ways.begin().connection == 2
    ways.failed(NoAnswer())
    assert ways.begin().connection == 2, "they are the same"


def test_a_connection_is_closed_with_the_last_call_that_is_under_way_on_it(
    authority: Authority, pair: Pair, ways: Ways[int]
) -> None:
    long, short = ways.begin(), ways.begin()
    pair.become(authority.issue("next"))
    ways.failed(NoAnswer())
    later = ways.begin()
    assert list(ways.end(short)) == list(ways.end(later)) == []
    assert list(ways.close()) == [1, 2]
    assert list(ways.end(long)) == [1]
    assert list(ways.close()) == [2]


def test_a_connection_that_has_a_successor_is_not_replaced(
    authority: Authority, pair: Pair, ways: Ways[int]
) -> None:
    old = ways.begin()
    spare = ways.spare(old)
    assert spare == 2
    pair.become(authority.issue("next"))
    ways.failed(NoAnswer())
    assert ways.begin().connection == 3
    assert not ways.replace(old, spare)
    assert ways.spare(old) is None
    assert ways.begin().connection == 3
