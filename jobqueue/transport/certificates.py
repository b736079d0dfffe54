"""The certificate files of a caller that lives longer than they are valid (R-9.1)."""

import ssl
from collections.abc import Callable

import grpc

from jobqueue.errors import InvalidArgument
from jobqueue.transport.pem import stamp
from jobqueue.transport.route import Tls, credentials

Told = Callable[[str], None]
"""Hears that files have changed, and why they cannot be used; empty: they are used from now on."""


class CertificateFiles:
    """Notices when the files of ``tls`` have changed since it was made or asked last."""

    def __init__(self, tls: Tls, told: Told) -> None:
        self._tls = tls
        self._told = told
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
            self._told(str(error))
            return None
        self._told("")
        return made

    def _look(self) -> tuple[object, ...]:
        return tuple(map(stamp, (self._tls.ca, self._tls.cert, self._tls.key)))


def _check(tls: Tls) -> None:
    """Raise OSError or ValueError unless the files can be used, and together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca is not None:
        context.load_verify_locations(tls.ca)
    if tls.cert is not None:
        # Without this, a key with a password would ask for it on the terminal.
        context.load_cert_chain(tls.cert, tls.key, password=str)
