"""Settings that are fine alone and cannot work together (R-2.4)."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from operator import attrgetter
from urllib.parse import urlsplit

from jobqueue.config.address import is_host
from jobqueue.config.dsn import SCHEMES, has_password, is_split_by_a_password, ports_are_numbers
from jobqueue.config.model import Settings
from jobqueue.errors import Fault

_URL_EXCLUDES = ("db.host", "db.port", "db.name", "db.user")
_RENEWALS_PER_LEASE = 3
_BEATS_PER_TIMEOUT = 2


def contradictions(
    settings: Settings, given: AbstractSet[str], ports: Sequence[str]
) -> Iterator[Fault]:
    """Yield what cannot work: `given` keys were set by anyone, the program opens `ports`."""
    yield from _timing(settings)
    yield from _retries(settings)
    yield from _database(settings, given)
    yield from _tls(settings)
    yield from _auth(settings)
    yield from _kafka(settings)
    yield from _limits(settings)
    yield from _ports(settings, ports)


def doubts(settings: Settings) -> Iterator[str]:
    """Yield what works, but hardly as meant."""
    lease, timeout = settings.lease.duration_s, settings.scheduler.worker_heartbeat_timeout_s
    if lease > timeout:
        yield (
            f"lease.duration_s ({lease:g}) is longer than scheduler.worker_heartbeat_timeout_s"
            f" ({timeout:g}): a dead worker shows OFFLINE before its jobs are taken back"
        )
    tls = settings.grpc.tls
    if not tls.enabled and (tls.cert_path or tls.key_path or tls.ca_path):
        yield "grpc.tls.* names certificates, but grpc.tls.enabled is false: plaintext is served"


def _timing(settings: Settings) -> Iterator[Fault]:
    lease, worker = settings.lease, settings.worker
    if lease.renew_interval_s > lease.duration_s / _RENEWALS_PER_LEASE:
        yield _clash("lease.renew_interval_s", "must be at most a third of", "lease.duration_s")
    timeout = settings.scheduler.worker_heartbeat_timeout_s
    if timeout < _BEATS_PER_TIMEOUT * worker.heartbeat_interval_s:
        yield _clash(
            "scheduler.worker_heartbeat_timeout_s",
            "must be at least twice",
            "worker.heartbeat_interval_s",
        )
    if worker.stall_limit_s < worker.heartbeat_interval_s:
        yield _clash("worker.stall_limit_s", "must be at least", "worker.heartbeat_interval_s")
    if worker.kill_grace_s > worker.shutdown_grace_period_s:
        yield _clash("worker.kill_grace_s", "must be at most", "worker.shutdown_grace_period_s")


def _retries(settings: Settings) -> Iterator[Fault]:
    retry, limits = settings.retry, settings.limits
    if retry.base_delay_s > retry.max_delay_s:
        yield _clash("retry.base_delay_s", "must be at most", "retry.max_delay_s")
    if retry.max_delay_s > limits.delay_s:
        yield _clash("retry.max_delay_s", "must be at most", "limits.delay_s")
    if retry.max_retries > limits.max_retries:
        yield _clash("retry.max_retries", "must be at most", "limits.max_retries")


def _database(settings: Settings, given: AbstractSet[str]) -> Iterator[Fault]:
    if settings.db.url is None:
        host = settings.db.host
        # A path is the folder of a socket.
        if not host.startswith("/") and not all(map(is_host, host.split(","))):
            yield Fault("db.host", "must be host names or addresses; db.port is for the port")
        return
    url = settings.db.url.reveal()
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        scheme = ""
    if scheme not in SCHEMES:
        # Not shown: whatever it is, it may hold a password.
        yield Fault("db.url", "must be a URL that begins with postgresql://")
        return
    if is_split_by_a_password(url):
        yield Fault("db.url", "has an @ after its host: write %40, and %2F for a / in a password")
        return
    if not ports_are_numbers(url):
        yield Fault("db.url", "has a port that is not a number from 1 to 65535")
    for key in _URL_EXCLUDES:
        if key in given:
            yield Fault(key, "contradicts db.url: set the URL or the parts, not both")
    if settings.db.password is not None and has_password(url):
        yield Fault("db.password", "contradicts db.url, which holds a password already")


def _tls(settings: Settings) -> Iterator[Fault]:
    if settings.grpc.tls.enabled:
        needed = {
            "grpc.tls.cert_path": settings.grpc.tls.cert_path,
            "grpc.tls.key_path": settings.grpc.tls.key_path,
        }
        yield from _missing(needed, "is needed when grpc.tls.enabled is true")
    if settings.scaler.tls != "off" and not settings.grpc.tls.enabled:
        message = "needs grpc.tls.enabled, whose certificate it serves"
        yield Fault("scaler.tls", message, "grpc.tls.enabled")
    elif settings.scaler.tls == "mutual":
        ca = {"grpc.tls.ca_path": settings.grpc.tls.ca_path}
        yield from _missing(ca, "is needed by scaler.tls mutual")


def _auth(settings: Settings) -> Iterator[Fault]:
    if settings.auth.jwt_audience is not None and settings.auth.jwt_secret is None:
        yield _clash("auth.jwt_audience", "needs", "auth.jwt_secret")


def _kafka(settings: Settings) -> Iterator[Fault]:
    kafka = settings.kafka
    if (kafka.security_protocol or "").startswith("SASL_"):
        needed = {"kafka.sasl.mechanism": kafka.sasl.mechanism}
        yield from _missing(needed, f"is needed by {kafka.security_protocol}")
    elif kafka.sasl.mechanism is not None:
        message = "needs kafka.security_protocol SASL_SSL or …_PLAINTEXT"
        yield Fault("kafka.sasl.mechanism", message, "kafka.security_protocol")
    if kafka.sasl.mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        needed_login = {
            "kafka.sasl.username": kafka.sasl.username,
            "kafka.sasl.password": kafka.sasl.password,
        }
        yield from _missing(needed_login, f"is needed by {kafka.sasl.mechanism}")


def _limits(settings: Settings) -> Iterator[Fault]:
    limits = settings.limits
    if limits.payload_bytes > limits.batch_bytes:
        yield _clash("limits.payload_bytes", "must be at most", "limits.batch_bytes")
    if limits.batch_bytes > limits.message_bytes:
        yield _clash("limits.batch_bytes", "must be at most", "limits.message_bytes")


def _ports(settings: Settings, keys: Sequence[str]) -> Iterator[Fault]:
    ports = [(key, attrgetter(key)(settings)) for key in keys]
    for (one, port), (other, other_port) in combinations(ports, 2):
        if port == other_port != 0:
            yield Fault(other, f"is {port}, which {one} uses already", one)


def _clash(key: str, must: str, beside: str) -> Fault:
    return Fault(key, f"{must} {beside}", beside)


def _missing(needed: Mapping[str, object], message: str) -> Iterator[Fault]:
    for key, value in needed.items():
        if value is None:
            yield Fault(key, message)
