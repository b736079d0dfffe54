"""Who gets in through the gRPC door, from settings (R-9.1)."""

from functools import partial
from pathlib import Path

from jobqueue.config.model import AuthSettings, ScalerSettings, Settings, TlsSettings
from jobqueue.rpc.auth import Authenticator, Tokens
from jobqueue.rpc.certificates import TlsFiles
from jobqueue.rpc.server import Protection
from jobqueue.rpc.tls import CertificateWatch, ServerTls
from jobqueue.runtime.service import Service


class Doorkeeping:
    """What protects the door, and the loops that keep it so.

    Raises SettingsError, on construction, for certificate files that cannot be served.
    """

    def __init__(self, settings: Settings) -> None:
        self._tls = _server_tls(settings.grpc.tls)
        self._auth = settings.auth
        self._scaler = settings.scaler

    @property
    def protection(self) -> Protection:
        """Return what the gRPC server is opened with."""
        return Protection(
            self._tls.credentials if self._tls else None,
            _authenticator(self._auth),
        )

    @property
    def of_scaler(self) -> Protection:
        """Return what the scaler's port is opened with: KEDA sends certificates, no credentials."""
        if self._tls is None or self._scaler.tls == "off":
            return Protection()
        return Protection(partial(self._tls.credentials, anyone=self._scaler.tls == "server"))

    @property
    def loops(self) -> tuple[Service, ...]:
        """Return what must run while the server does."""
        return (CertificateWatch(self._tls),) if self._tls else ()

    def lines(self) -> list[str]:
        """Return what an operator should know, in a line each."""
        return [self._tls_line(), self._auth_line(), _scaler_line(self._scaler)]

    def _tls_line(self) -> str:
        if self._tls is None:
            return "tls: off; calls can be read on their way"
        identity = self._tls.refresh()
        clients = "required" if identity.ca_pem else "not asked for"
        until = f"{identity.valid.end:%Y-%m-%d %H:%M} UTC"
        return f"tls: on, certificate valid until {until}, client certificates {clients}"

    def _auth_line(self) -> str:
        ways = [f"API keys ({len(self._auth.api_keys)})"] if self._auth.api_keys else []
        if self._auth.jwt_secret:
            ways.append("tokens (HS256)")
        if not ways:
            return "auth: off; who can connect may do everything"
        return f"auth: {' and '.join(ways)}"


def _scaler_line(scaler: ScalerSettings) -> str:
    if not scaler.port:
        return "scaler: off"
    callers = {
        "off": "plaintext; who can connect may see the queues' figures",
        "server": "TLS; who can connect may see the queues' figures",
        "mutual": "TLS, client certificates required",
    }
    return f"scaler: on port {scaler.port}, {callers[scaler.tls]}"


def _server_tls(tls: TlsSettings) -> ServerTls | None:
    if not tls.enabled:
        return None
    assert tls.cert_path is not None
    assert tls.key_path is not None, "settings that lack one of the two are refused"
    ca = Path(tls.ca_path) if tls.ca_path else None
    return ServerTls(TlsFiles(Path(tls.cert_path), Path(tls.key_path), ca))


def _authenticator(auth: AuthSettings) -> Authenticator | None:
    if not auth.api_keys and auth.jwt_secret is None:
        return None
    tokens = Tokens(auth.jwt_secret, auth.jwt_audience) if auth.jwt_secret else None
    return Authenticator(auth.api_keys, tokens)
