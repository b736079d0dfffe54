"""The certificate files of a worker, which lives longer than they are valid (R-9.1)."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from jobqueue.errors import InvalidArgument
from jobqueue.runtime.signals import Signal
from jobqueue.transport import Tls, credentials


@dataclass(frozen=True, slots=True)
class CertificatesChanged:
    """The files are others now; ``fault`` says why they cannot be used, empty: they are used."""

    fault: str


CERTIFICATES_CHANGED: Signal[CertificatesChanged] = Signal("certificates_changed")


class CertificateFiles:
    """Notices when the files of ``tls`` have changed since it was made or asked last."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._stamp = self._look()

    def renewed(self) -> grpc.ChannelCredentials | None:
        """Return what new files prove; None when they are the same, or do not go together yet.

        gRPC would take any files, and then fail with every connection.
        """
        stamp = self._look()
        if stamp == self._stamp:
            return None
        # Before they are read: one that changes meanwhile is then read again.
        self._stamp = stamp
        try:
            _check(self._tls)
            made = credentials(self._tls)
        except (OSError, ValueError, InvalidArgument) as error:
            CERTIFICATES_CHANGED.emit(CertificatesChanged(str(error)))
            return None
        CERTIFICATES_CHANGED.emit(CertificatesChanged(""))
        return made

    def _look(self) -> tuple[object, ...]:
        return tuple(map(_stamp, (self._tls.ca, self._tls.cert, self._tls.key)))


def _stamp(path: Path | str | None) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found else None


def _check(tls: Tls) -> None:
    """Raise OSError or ValueError unless the files can be used, and together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca is not None:
        context.load_verify_locations(tls.ca)
    if tls.cert is not None:
        # Without this, a key with a password would ask for it on the terminal.
        context.load_cert_chain(tls.cert, tls.key, password=str)
