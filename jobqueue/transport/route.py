"""How calls travel: address, credentials, message limits, retries.

The same for everything that calls the server: both clients and remote workers.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import grpc

from jobqueue.domain.limits import Limits, check, positive_faults
from jobqueue.errors import FieldViolation, InvalidArgument
from jobqueue.transport.pem import read_pem
from jobqueue.transport.pings import PINGS

DEFAULT_ADDRESS = "localhost:50051"
DEFAULT_TIMEOUT_S = 10.0

_JOBS, _ADMIN = "jobqueue.v1.JobService", "jobqueue.v1.AdminService"
_WORKERS, _EVENTS = "jobqueue.v1.WorkerService", "jobqueue.v1.EventService"

_REPEATABLE = {
    # Submissions are repeatable because every request names itself (request_id).
    _JOBS: ("SubmitJob", "SubmitJobs", "GetJob", "ListJobs", "ListJobEvents"),
    _ADMIN: (
        "UpdateQueue",
        "GetQueue",
        "ListQueues",
        "PauseQueue",
        "ResumeQueue",
        "GetQueueStats",
        "ListWorkers",
        "DrainWorker",
        "ShutdownWorker",
        "GetSystemStatus",
        "GetVersion",
    ),
    _EVENTS: ("ListParkedEvents",),
    # Leases are fenced: a start or report that was heard already answers the same.
    _WORKERS: ("Register", "StartJobs", "Heartbeat", "ReportResults", "ReportProgress"),
}
"""Calls that mean the same when sent twice. Cancel, retry, delete and create do not: their second
answer would be an error although the first did its work."""

_RETRY_POLICY = {
    "maxAttempts": 5,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    # CANCELLED: a server that stops cuts off what it had not looked at. A cancellation by the
    # caller itself ends the call and its retries.
    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
}

_RECONNECT: list[tuple[str, int | str]] = [
    # A server that comes back is found within seconds, however long it was away; the library's
    # own backoff grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]

_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:", "xds:")
_HOST_PORT = re.compile(r"(\[[^\[\]\s]+\]|[^\[\]:/\s]+):(?P<port>[0-9]{1,5})", re.ASCII)
_LAST_PORT = 65_535
_MAX_KEY_BYTES = 8_000
"""A server takes 8 KiB of metadata with a call, and refuses more."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files (PEM) for an encrypted connection.

    ``ca`` None: the system's roots. ``cert`` and ``key`` prove who the client is; both or none.
    """

    ca: Path | str | None = None
    cert: Path | str | None = None
    key: Path | str | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """Where to and as whom: everything a client is made with."""

    address: str = DEFAULT_ADDRESS
    timeout_s: float = DEFAULT_TIMEOUT_S
    tls: Tls | None = None
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise InvalidArgument for what can never work."""
        check_address(self.address)
        check_timeout(self.timeout_s)
        if self.api_key is not None and not self._sendable(self.api_key):
            fault = f"must be at most {_MAX_KEY_BYTES} printable ASCII characters without spaces"
            raise InvalidArgument([FieldViolation("api_key", fault)])

    def metadata(self) -> Sequence[tuple[str, str]]:
        """Return what goes with every call."""
        return [("authorization", f"Bearer {self.api_key}")] if self.api_key else []

    def deadline(self, timeout_s: float | None) -> float | None:
        """Return the seconds one call may take: as said, else the default; None: no end."""
        seconds = self.timeout_s if timeout_s is None else check_timeout(timeout_s)
        return None if math.isinf(seconds) else seconds

    @staticmethod
    def _sendable(key: str) -> bool:
        plain = key.isascii() and key.isprintable() and " " not in key
        return plain and len(key) <= _MAX_KEY_BYTES


def check_address(address: str) -> None:
    """Raise InvalidArgument unless this is ``HOST:PORT``, or a gRPC target with its scheme.

    gRPC itself takes a missing port for 443, and one above 65535 modulo 65536.
    """
    if not address.strip():
        raise InvalidArgument([FieldViolation("address", "must not be empty")])
    sendable = address.isprintable()
    if sendable and address.startswith(_SCHEMES):
        return
    host_port = _HOST_PORT.fullmatch(address) if sendable else None
    if host_port is None or not 1 <= int(host_port["port"]) <= _LAST_PORT:
        fault = f"must be HOST:PORT with a port from 1 to {_LAST_PORT}, not {address!r}"
        raise InvalidArgument([FieldViolation("address", fault)])


def check_timeout(seconds: float) -> float:
    """Return ``seconds``; raise InvalidArgument unless it is positive and gRPC can count it.

    Infinity is no end. A finite time of ages is one that is over for gRPC.
    """
    if seconds != math.inf:
        check(positive_faults("timeout", seconds, Limits().delay_s))
    return seconds


def credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Read the files. Raises InvalidArgument naming the one that is missing or unreadable."""
    if (tls.cert is None) != (tls.key is None):
        fault = "certificate and key must be given together"
        raise InvalidArgument([FieldViolation("tls", fault)])
    return grpc.ssl_channel_credentials(
        root_certificates=_read("tls.ca", tls.ca),
        private_key=_read("tls.key", tls.key),
        certificate_chain=_read("tls.cert", tls.cert),
    )


def _read(field: str, path: Path | str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return read_pem(path)
    except OSError as error:
        fault = f"cannot read {path}: {error.strerror}"
    except ValueError as error:
        fault = str(error)
    raise InvalidArgument([FieldViolation(field, fault)])


def channel_options(address: str) -> list[tuple[str, int | str]]:
    """Return the options of a channel, for both kinds of it."""
    size = Limits().message_bytes
    options: list[tuple[str, int | str]] = [
        ("grpc.max_send_message_length", size),
        ("grpc.max_receive_message_length", size),
        # A message over the buffer is sent once and never again; the default is 256 KiB.
        ("grpc.per_rpc_retry_buffer_size", size),
        ("grpc.service_config", json.dumps(_service_config())),
        *PINGS,
        *_RECONNECT,
    ]
    if _is_loopback(address):
        # A proxy for the outside cannot reach this machine's own loopback.
        options.append(("grpc.enable_http_proxy", 0))
    return options


def _service_config() -> dict[str, object]:
    names = [
        {"service": service, "method": method}
        for service, methods in _REPEATABLE.items()
        for method in methods
    ]
    return {"methodConfig": [{"name": names, "retryPolicy": _RETRY_POLICY}]}


def _is_loopback(address: str) -> bool:
    try:
        host = urlsplit(f"//{address}").hostname or ""
    except ValueError:
        return False
    return host in {"localhost", "::1"} or host.startswith("127.")
