"""Certificates made for a test, in files, as people have them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from jobqueue.client import Tls


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in files."""

    cert: Path
    key: Path

    def become(self, other: "Pair") -> None:
        """Hold what another pair holds, each file exchanged at once."""
        for mine, theirs in ((self.cert, other.cert), (self.key, other.key)):
            replacement = mine.with_suffix(".new")
            replacement.write_bytes(theirs.read_bytes())
            replacement.replace(mine)


class Authority:
    """A CA that writes what it issues into a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA(organization_name=name)
        self._folder = folder
        self._name = name
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self._ca.cert_pem.bytes())

    def issue(self, name: str, *hosts: str, until: datetime | None = None) -> Pair:
        """Issue a certificate; one that has ended began a year before its end."""
        begin = None if until is None else until - timedelta(days=365)
        leaf = self._ca.issue_cert(
            *(hosts or (name,)), not_before=_naive(begin), not_after=_naive(until)
        )
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.cert.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
        pair.key.write_bytes(leaf.private_key_pem.bytes())
        return pair

    def server(self, name: str = "server", *, until: datetime | None = None) -> Pair:
        """Issue a certificate for this machine's own loopback."""
        return self.issue(name, "localhost", "127.0.0.1", until=until)

    def tls(self, pair: Pair | None = None) -> Tls:
        """Return what a client connects with: this CA, and a certificate of its own."""
        return Tls(self.path, pair.cert, pair.key) if pair else Tls(self.path)


def past() -> datetime:
    """Return a time by which a certificate has ended."""
    return datetime.now(UTC) - timedelta(days=1)


def settings(pair: Pair, ca: Path | None = None) -> dict[str, str]:
    """Return the settings of a server, dots written as two underscores."""
    paths = {"cert": pair.cert, "key": pair.key, "ca": ca}
    named = {f"grpc__tls__{name}_path": str(path) for name, path in paths.items() if path}
    return {"grpc__tls__enabled": "true", **named}


def _naive(instant: datetime | None) -> datetime | None:
    """Return the same without a zone: the library's way of saying UTC."""
    return None if instant is None else instant.astimezone(UTC).replace(tzinfo=None)
