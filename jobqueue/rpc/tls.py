"""TLS of the gRPC door: one identity, replaced when its files change (R-9.1)."""

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

import grpc

from jobqueue.errors import SettingsError
from jobqueue.rpc.certificates import Identity, TlsFiles, read_identity
from jobqueue.runtime.log import get_logger
from jobqueue.runtime.service import Service
from jobqueue.transport.pem import utc_now

WARN_BEFORE = timedelta(days=14)
_WATCH_S = 60.0

_log = get_logger(__name__)


class ServerTls:
    """The server's certificate, key and CA as they are on disk now.

    Reading is safe from any thread. A change that cannot be used, such as a half-written file,
    is logged once and changes nothing; a certificate that is not valid yet waits for its time,
    unless the old one is not valid either.
    """

    def __init__(self, files: TlsFiles, now: Callable[[], datetime] = utc_now) -> None:
        """Read the files. Raises SettingsError naming the settings that cannot work."""
        self._files = files
        self._now = now
        self._lock = threading.Lock()
        # Before the files: one that changes while it is read is then read again.
        self._stamp = files.stamp()
        self._identity = read_identity(files, now())
        self._next: Identity | None = None

    def credentials(self, *, anyone: bool = False) -> grpc.ServerCredentials:
        """Return what one port is opened with. Each handshake looks whether a file has changed.

        ``anyone``: ask no client for a certificate, though there is a CA for them.
        """
        served = self._identity

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal served
            found = self.refresh()
            if found is served:
                return None
            served = found
            return _configuration(found, anyone=anyone)

        required = served.ca_pem is not None and not anyone
        look = cast(Any, fetch)  # the stubs do not know that None means no change
        return grpc.dynamic_ssl_server_credentials(
            _configuration(served, anyone=anyone), look, required
        )

    def refresh(self) -> Identity:
        """Return the newest identity that works, having looked at the files."""
        with self._lock:
            stamp = self._files.stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                self._read()
            if self._next is not None and not self._must_wait(self._next):
                self._identity, self._next = self._next, None
                until = self._identity.valid.end.isoformat()
                _log.info("certificates reloaded", valid_until=until)
            return self._identity

    def _read(self) -> None:
        try:
            self._next = read_identity(self._files, self._now())
        except SettingsError as error:
            _log.warning(
                "new certificate files cannot be used; the old ones stay", cause=str(error)
            )
            return
        if self._must_wait(self._next):
            since = self._next.valid.begin.isoformat()
            _log.warning("the new certificate waits until it is valid", valid_from=since)

    def _must_wait(self, found: Identity) -> bool:
        return found.valid.waits_for(self._identity.valid, self._now())


def _configuration(identity: Identity, *, anyone: bool) -> grpc.ServerCertificateConfiguration:
    pair = (identity.key_pem, identity.chain_pem)
    ca_pem = None if anyone else identity.ca_pem
    return grpc.ssl_server_certificate_configuration([pair], ca_pem)


class CertificateWatch(Service):
    """Notices new files when nobody connects, and warns before the certificate expires.

    Once per certificate and state: a line a minute would hide the others.
    """

    def __init__(self, tls: ServerTls, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__("certificates", interval_s=_WATCH_S)
        self._tls = tls
        self._now = now
        self._said: tuple[Identity, str] | None = None

    async def turn(self) -> float | None:
        """Look once."""
        identity = await asyncio.to_thread(self._tls.refresh)
        fault = validity_fault(identity, self._now())
        if fault and self._said != (identity, fault):
            self._said = (identity, fault)
            until = identity.valid.end.isoformat()
            _log.warning(f"the server's certificate {fault}", valid_until=until)
        return None


def validity_fault(identity: Identity, now: datetime) -> str | None:
    """Return what is wrong with the dates of a certificate, or soon will be."""
    if now < identity.valid.begin:
        return "is not valid yet: clients refuse it"
    if now >= identity.valid.end:
        return "has expired: clients refuse it"
    if now >= identity.valid.end - WARN_BEFORE:
        return f"expires within {WARN_BEFORE.days} days"
    return None
