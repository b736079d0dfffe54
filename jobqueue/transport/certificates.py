"""The certificate files of a caller that lives longer than they are valid (R-9.1)."""

import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import grpc

from jobqueue.errors import InvalidArgument
from jobqueue.transport.pem import Validity, read_pem, stamp, utc_now, validity_of
from jobqueue.transport.route import Tls, credentials

Told = Callable[[str], None]
"""Hears that files have changed, and why they cannot be used; empty: they are used from now on."""

_UNUSABLE = (OSError, ValueError, InvalidArgument)


@dataclass(frozen=True, slots=True)
class _Identity:
    """What files prove; and when, where they hold a certificate."""

    credentials: grpc.ChannelCredentials
    valid: Validity | None


class CertificateFiles:
    """Notices when the files of ``tls`` have changed since it was made or asked last."""

    def __init__(self, tls: Tls, told: Told, now: Callable[[], datetime] = utc_now) -> None:
        self._tls = tls
        self._told = told
        self._now = now
        self._stamp = self._look()
        self._valid: Validity | None = None
        self._next: _Identity | None = None
        with suppress(OSError, ValueError):  # who connects first is told why
            self._valid = _validity(tls)

    def renewed(self) -> grpc.ChannelCredentials | None:
        """Return what new files prove; None when they are the same, or do not go together yet.

        gRPC would take any files, and then fail with every connection. A certificate that is not
        valid yet waits for its time, unless the old one is not valid either.
        """
        stamp = self._look()
        if stamp != self._stamp:
            # Before they are read: one that changes meanwhile is then read again.
            self._stamp = stamp
            self._read()
        found = self._next
        if found is None or self._must_wait(found.valid):
            return None
        self._valid, self._next = found.valid, None
        self._told("")
        return found.credentials

    def _read(self) -> None:
        try:
            self._next = _identity(self._tls)
        except _UNUSABLE as error:
            self._told(str(error))
            return
        valid = self._next.valid
        if valid is not None and self._must_wait(valid):
            self._told(f"the certificate is not valid before {valid.begin.isoformat()}")

    def _must_wait(self, found: Validity | None) -> bool:
        if found is None or self._valid is None:
            return False
        return found.waits_for(self._valid, self._now())

    def _look(self) -> tuple[object, ...]:
        return tuple(map(stamp, (self._tls.ca, self._tls.cert, self._tls.key)))


def _identity(tls: Tls) -> _Identity:
    """Read the files. Raises OSError, ValueError, InvalidArgument."""
    _check(tls)
    made = credentials(tls)
    return _Identity(made, _validity(tls))


def _validity(tls: Tls) -> Validity | None:
    return None if tls.cert is None else validity_of(read_pem(tls.cert))


def _check(tls: Tls) -> None:
    """Raise OSError or ValueError unless the files can be used, and together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca is not None:
        context.load_verify_locations(tls.ca)
    if tls.cert is not None:
        # Without this, a key with a password would ask for it on the terminal.
        context.load_cert_chain(tls.cert, tls.key, password=str)
