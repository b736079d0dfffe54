"""Every setting: its name, default, range. The attribute path is the key (`lease.duration_s`).

`None` and empty lists mean that nothing was set. Units are in the names. Zero as a port means any
free one. Sections of features that are off are there with their defaults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from jobqueue.config.api_keys import ApiKey, ApiKeys
from jobqueue.config.kafka_options import KafkaOptions, Options
from jobqueue.config.rules import (
    Address,
    Choice,
    Commands,
    Flag,
    Integer,
    Number,
    Rule,
    SecretText,
    Text,
    TextList,
)
from jobqueue.config.secret import Secret

T = TypeVar("T")

RULE = "rule"

_KIB, _MIB = 1024, 1024 * 1024
_DAY_S = 86_400.0
_TEN_YEARS_S = 10 * 365 * _DAY_S
_TEN_YEARS_DAYS = 10 * 365.0
_PORT = Integer(0, 65_535)
_INTERVAL_MS = Integer(10, 3_600_000)
_CONNECT_MS = Integer(1, 600_000)
_BATCH = Integer(1, 10_000)
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # where Kubernetes mounts it


def _setting(default: T, rule: Rule[T]) -> T:
    return field(default=default, metadata={RULE: rule})


def _made(factory: Callable[[], T], rule: Rule[T]) -> T:
    return field(default_factory=factory, metadata={RULE: rule})


def _section(factory: Callable[[], T]) -> T:
    return field(default_factory=factory)


def _no_options() -> Options:
    return MappingProxyType({})


def _no_commands() -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType({})


def _at_most(highest: int, low: int = 1) -> int:
    """Return a limit that may be lowered, never raised: the tables rely on it."""
    return _setting(highest, Integer(low, highest))


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """mTLS of the gRPC door."""

    enabled: bool = _setting(default=False, rule=Flag())
    cert_path: str | None = _setting(None, Text())
    key_path: str | None = _setting(None, Text())
    ca_path: str | None = _setting(None, Text())


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """The gRPC door."""

    port: int = _setting(50051, _PORT)
    tls: TlsSettings = _section(TlsSettings)


@dataclass(frozen=True, slots=True)
class ScalerSettings:
    """The door for KEDA; off at port 0. Its certificates are those of the gRPC door."""

    port: int = _setting(0, _PORT)
    tls: str = _setting("off", Choice(("off", "server", "mutual")))


@dataclass(frozen=True, slots=True)
class DbSettings:
    """PostgreSQL: a URL, or its parts. `dsn.database_dsn` joins them."""

    url: Secret | None = _setting(None, SecretText())
    host: str = _setting("localhost", Text())
    port: int = _setting(5432, Integer(1, 65_535))
    name: str = _setting("jobqueue", Text())
    user: str = _setting("jq_user", Text())
    password: Secret | None = _setting(None, SecretText())
    sslmode: str | None = _setting(
        None, Choice(("disable", "allow", "prefer", "require", "verify-ca", "verify-full"))
    )
    ssl_root_cert: str | None = _setting(None, Text())
    # The upkeep of events holds one connection while it works on another, at times for minutes.
    pool_size: int = _setting(10, Integer(3, 1_000))
    connect_timeout_ms: int = _setting(3_000, _CONNECT_MS)
    pgbouncer: bool = _setting(default=False, rule=Flag())


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """The courtesy lock between replicas; off without `addr`."""

    addr: str | None = _setting(None, Address())
    username: str | None = _setting(None, Text())
    password: Secret | None = _setting(None, SecretText())
    db: int = _setting(0, Integer(0, 65_535))
    tls: bool = _setting(default=False, rule=Flag())
    connect_timeout_ms: int = _setting(1_000, _CONNECT_MS)
    lock_ttl_ms: int = _setting(15_000, Integer(100, 3_600_000))


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How we introduce ourselves to Kafka."""

    mechanism: str | None = _setting(
        None, Choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"))
    )
    username: str | None = _setting(None, Text())
    password: Secret | None = _setting(None, SecretText())


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How events are written."""

    acks: str = _setting("all", Choice(("all", "1", "0")))
    compression: str = _setting("snappy", Choice(("none", "gzip", "snappy", "lz4", "zstd")))


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where events go; off without `brokers`."""

    brokers: tuple[str, ...] = _setting((), TextList())
    topic: str = _setting("jobqueue.events", Text())
    security_protocol: str | None = _setting(
        None, Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
    )
    sasl: SaslSettings = _section(SaslSettings)
    producer: ProducerSettings = _section(ProducerSettings)
    options: Options = _made(_no_options, KafkaOptions())


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What comes due, and who counts as alive."""

    interval_ms: int = _setting(500, _INTERVAL_MS)
    batch_size: int = _setting(100, _BATCH)
    assignment_timeout_s: float = _setting(60.0, Number(0.1, _DAY_S))
    worker_heartbeat_timeout_s: float = _setting(30.0, Number(0.1, _DAY_S))


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """How long a worker may hold a job without being heard."""

    duration_s: float = _setting(30.0, Number(0.3, _DAY_S))
    renew_interval_s: float = _setting(10.0, Number(0.1, _DAY_S))


@dataclass(frozen=True, slots=True)
class ReaperSettings:
    """What happens to lost leases and old rows."""

    interval_ms: int = _setting(1_000, _INTERVAL_MS)
    batch_size: int = _setting(500, _BATCH)
    done_retention_days: float = _setting(7.0, Number(0.0, _TEN_YEARS_DAYS))
    event_retention_days: float = _setting(30.0, Number(0.0, _TEN_YEARS_DAYS))
    crash_limit: int = _setting(3, Integer(1, 1_000))


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """The policy of a queue that names none of its own."""

    max_retries: int = _setting(3, Integer(0, 1_000))
    base_delay_s: float = _setting(5.0, Number(0.0, _TEN_YEARS_S))
    max_delay_s: float = _setting(300.0, Number(0.0, _TEN_YEARS_S))
    multiplier: float = _setting(2.0, Number(1.0, 1_000.0))


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How handlers run. `default_timeout_s` 0 means none."""

    heartbeat_interval_s: float = _setting(5.0, Number(0.1, 3_600.0))
    shutdown_grace_period_s: float = _setting(60.0, Number(0.0, _DAY_S))
    kill_grace_s: float = _setting(5.0, Number(0.0, 3_600.0))
    default_timeout_s: float = _setting(0.0, Number(0.0, _TEN_YEARS_S))
    stall_limit_s: float = _setting(300.0, Number(1.0, _DAY_S))
    prefetch: int = _setting(0, Integer(0, 10_000))
    processes: int = _setting(1, Integer(1, 1_000))
    allow_shell: bool = _setting(default=False, rule=Flag())
    handlers: tuple[str, ...] = _setting((), TextList())
    commands: Mapping[str, tuple[str, ...]] = _made(_no_commands, Commands())
    pod_deletion_cost: bool = _setting(default=False, rule=Flag())
    pod_deletion_cost_interval_s: float = _setting(60.0, Number(1.0, 3_600.0))
    kubernetes_credentials_dir: str = _setting(_SERVICE_ACCOUNT, Text())


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The control plane as a process."""

    shutdown_grace_period_s: float = _setting(30.0, Number(0.0, _DAY_S))


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Who may call. Without keys and secret, everyone who can connect."""

    api_keys: tuple[ApiKey, ...] = _setting((), ApiKeys())
    # HS256 is as strong as the shorter of its hash and its key.
    jwt_secret: Secret | None = _setting(None, SecretText(least_bytes=32))
    jwt_audience: str | None = _setting(None, Text())


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """Sizes and counts every door enforces. They may be lowered, never raised."""

    payload_bytes: int = _at_most(_MIB)
    result_bytes: int = _at_most(_MIB)
    error_bytes: int = _at_most(16 * _KIB)
    event_bytes: int = _at_most(64 * _KIB)
    batch_jobs: int = _at_most(10_000)
    batch_bytes: int = _at_most(32 * _MIB)
    message_bytes: int = _at_most(36 * _MIB)
    name_length: int = _at_most(128)
    key_bytes: int = _at_most(256)
    labels: int = _at_most(32, low=0)
    label_bytes: int = _at_most(256)
    max_retries: int = _at_most(1_000, low=0)
    delay_s: float = _setting(_TEN_YEARS_S, Number(0.0, _TEN_YEARS_S))


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Where metrics are read."""

    port: int = _setting(9090, _PORT)


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Where probes look."""

    port: int = _setting(8080, _PORT)


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """What is said, and how."""

    level: str = _setting("info", Choice(("trace", "debug", "info", "warn", "error")))
    format: str = _setting("json", Choice(("json", "text")))


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """How attempts hang together with submissions; `OTEL_*` variables say where spans go."""

    process_as: str = _setting("child", Choice(("child", "link")))


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them, checked."""

    grpc: GrpcSettings = _section(GrpcSettings)
    scaler: ScalerSettings = _section(ScalerSettings)
    db: DbSettings = _section(DbSettings)
    redis: RedisSettings = _section(RedisSettings)
    kafka: KafkaSettings = _section(KafkaSettings)
    scheduler: SchedulerSettings = _section(SchedulerSettings)
    lease: LeaseSettings = _section(LeaseSettings)
    reaper: ReaperSettings = _section(ReaperSettings)
    retry: RetrySettings = _section(RetrySettings)
    worker: WorkerSettings = _section(WorkerSettings)
    server: ServerSettings = _section(ServerSettings)
    auth: AuthSettings = _section(AuthSettings)
    limits: LimitsSettings = _section(LimitsSettings)
    metrics: MetricsSettings = _section(MetricsSettings)
    health: HealthSettings = _section(HealthSettings)
    logging: LoggingSettings = _section(LoggingSettings)
    tracing: TracingSettings = _section(TracingSettings)
