"""What may be wrong with certificate files is found before gRPC sees them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from jobqueue.errors import Fault, SettingsError
from jobqueue.rpc.certificates import CA, CERT, KEY, TlsFiles, read_identity
from tests.support.certificates import Authority, Pair, past


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.server()


def faults(pair: Pair, ca: Path | None = None) -> list[Fault]:
    with pytest.raises(SettingsError) as caught:
        read_identity(TlsFiles(pair.cert, pair.key, ca), datetime.now(UTC))
    return list(caught.value.faults)


def test_files_that_fit_are_an_identity(authority: Authority, pair: Pair) -> None:
    identity = read_identity(TlsFiles(pair.cert, pair.key, authority.path), datetime.now(UTC))
    assert identity.chain_pem == pair.cert.read_bytes()
    assert identity.key_pem == pair.key.read_bytes()
    assert identity.ca_pem == authority.path.read_bytes()
    assert identity.valid.holds(datetime.now(UTC))


def test_the_key_is_in_no_repr(pair: Pair) -> None:
    identity = read_identity(TlsFiles(pair.cert, pair.key), datetime.now(UTC))
    assert "PRIVATE KEY" not in repr(identity)


def test_all_missing_files_are_named_at_once(tmp_path: Path) -> None:
    found = faults(Pair(tmp_path / "a", tmp_path / "b"), tmp_path)
    assert [fault.key for fault in found] == [CERT, KEY, CA]
    assert "cannot read" in found[0].message
    assert "No such file" in found[0].message


def test_a_file_without_an_end_is_named(pair: Pair) -> None:
    (found,) = faults(pair, Path("/dev/zero"))
    assert (found.key, found.message) == (CA, "/dev/zero is larger than 4194304 bytes")


def test_files_that_hold_something_else_are_named(tmp_path: Path, pair: Pair) -> None:
    empty, swapped = tmp_path / "empty", Pair(pair.key, pair.cert)
    empty.write_bytes(b"")
    assert [fault.key for fault in faults(Pair(empty, empty), empty)] == [CERT, KEY, CA]
    assert [fault.key for fault in faults(swapped)] == [CERT, KEY]


def test_a_key_of_another_certificate_is_refused(authority: Authority, pair: Pair) -> None:
    (fault,) = faults(Pair(pair.cert, authority.server("other").key))
    assert fault.key == KEY
    assert "is not the key of the certificate" in fault.message


def test_a_key_with_a_password_is_refused(pair: Pair) -> None:
    key = load_pem_private_key(pair.key.read_bytes(), None)
    locked = BestAvailableEncryption(b"hunter2")
    pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    (fault,) = faults(pair)
    assert (fault.key, "is encrypted" in fault.message) == (KEY, True)


def test_a_key_that_grpc_cannot_serve_with_is_refused(pair: Pair) -> None:
    plain = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pair.key.write_bytes(Ed25519PrivateKey.generate().private_bytes(*plain))
    (fault,) = faults(pair)
    assert (fault.key, "RSA or ECDSA" in fault.message) == (KEY, True)


def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    (fault,) = faults(authority.server("old", until=past()))
    assert (fault.key, "expired on" in fault.message) == (CERT, True)


def test_the_stamp_changes_with_every_file(authority: Authority, pair: Pair) -> None:
    files = TlsFiles(pair.cert, pair.key, authority.path)
    stamps = [files.stamp()]
    for path in (pair.cert, pair.key, authority.path):
        replacement = path.with_suffix(".new")
        replacement.write_bytes(path.read_bytes())
        replacement.replace(path)
        stamps.append(files.stamp())
    pair.cert.unlink()
    stamps.append(files.stamp())
    assert len(set(stamps)) == len(stamps)
    assert files.stamp() == stamps[-1]


def test_a_far_future_is_valid_and_its_end_is_known(authority: Authority) -> None:
    until = datetime.now(UTC) + timedelta(days=400)
    pair = authority.server("long", until=until)
    identity = read_identity(TlsFiles(pair.cert, pair.key), datetime.now(UTC) + timedelta(days=100))
    assert abs(identity.valid.end - until) < timedelta(seconds=2)
