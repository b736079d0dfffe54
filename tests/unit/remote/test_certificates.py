"""When a worker takes new certificate files, and when it keeps what it has."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from jobqueue.remote.certificates import CERTIFICATES_CHANGED, CertificateFiles
from tests.support.certificates import Authority, Pair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("worker")


@pytest.fixture
def files(authority: Authority, pair: Pair) -> CertificateFiles:
    return CertificateFiles(authority.tls(pair))


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What was said to be wrong with new files, empty where nothing was."""
    faults: list[str] = []
    stop = CERTIFICATES_CHANGED.subscribe(lambda news: faults.append(news.fault))
    yield faults
    stop()


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
