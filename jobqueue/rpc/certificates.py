"""Certificate files, read and checked before gRPC sees them: gRPC would only fail handshakes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from jobqueue.errors import Fault, SettingsError
from jobqueue.transport.pem import Validity, read_pem, stamp

CERT, KEY, CA = "grpc.tls.cert_path", "grpc.tls.key_path", "grpc.tls.ca_path"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the server's certificate and key are (PEM), and who may sign those of clients.

    Without ``ca`` clients are not asked for certificates.
    """

    cert: Path
    key: Path
    ca: Path | None = None

    def stamp(self) -> tuple[object, ...]:
        """Return something that differs once a file was written or exchanged."""
        return tuple(map(stamp, (self.cert, self.key, self.ca)))


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the server is: what gRPC serves with, and when."""

    key_pem: bytes = field(repr=False)
    chain_pem: bytes
    ca_pem: bytes | None
    valid: Validity


def read_identity(files: TlsFiles, now: datetime) -> Identity:
    """Read the files. Raises SettingsError with every fault, by the key of the setting."""
    faults: list[Fault] = []
    chain_pem = _checked(faults, CERT, files.cert)
    key_pem = _checked(faults, KEY, files.key)
    ca_pem = _checked(faults, CA, files.ca) if files.ca else None
    chain = _parsed(faults, CERT, files.cert, chain_pem, _certificates)
    key = _parsed(faults, KEY, files.key, key_pem, _private_key)
    _parsed(faults, CA, files.ca, ca_pem, _certificates)
    if chain and key and _public(chain[0].public_key()) != _public(key.public_key()):
        faults.append(Fault(KEY, f"is not the key of the certificate in {files.cert}"))
    if chain and chain[0].not_valid_after_utc <= now:
        faults.append(Fault(CERT, f"expired on {chain[0].not_valid_after_utc:%Y-%m-%d %H:%M} UTC"))
    if faults or not chain or key_pem is None or chain_pem is None:
        raise SettingsError(faults)
    valid = Validity(chain[0].not_valid_before_utc, chain[0].not_valid_after_utc)
    return Identity(key_pem, chain_pem, ca_pem, valid)


def _checked(faults: list[Fault], setting: str, path: Path) -> bytes | None:
    try:
        return read_pem(path)
    except OSError as error:
        faults.append(Fault(setting, f"cannot read {path}: {error.strerror}"))
    except ValueError as error:
        faults.append(Fault(setting, f"{path} {error}"))
    return None


def _parsed(
    faults: list[Fault],
    setting: str,
    path: Path | None,
    pem: bytes | None,
    parse: Callable[[bytes], T],
) -> T | None:
    if pem is None:
        return None
    try:
        return parse(pem)
    except ValueError as error:
        faults.append(Fault(setting, f"{path} {error}"))
        return None


def _certificates(pem: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ValueError("holds no certificate (PEM)") from error


def _private_key(pem: bytes) -> RSAPrivateKey | EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise ValueError("is encrypted; there is nobody to ask for its password") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("holds no private key (PEM)") from error
    if not isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey):
        raise ValueError("must hold an RSA or ECDSA key")  # noqa: TRY004 - a wrong file
    return key


def _public(key: object) -> bytes:
    encode: Callable[..., bytes] = key.public_bytes  # type: ignore[attr-defined]
    return encode(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
