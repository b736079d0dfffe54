"""Settings that contradict each other (R-2.4), and the table of defaults (R-2.3)."""

from dataclasses import asdict
from urllib.parse import urlsplit

import pytest

from jobqueue.config.describe import describe
from jobqueue.config.dsn import database_dsn
from jobqueue.config.keys import RULES, variable_of
from jobqueue.config.load import load_settings
from jobqueue.config.model import Settings
from jobqueue.config.ports import WORKER_PORTS
from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.limits import Limits
from jobqueue.errors import SettingsError

DEFAULTS = """
grpc.port=50051 grpc.tls.enabled=false grpc.tls.cert_path=- grpc.tls.key_path=- grpc.tls.ca_path=-
scaler.port=0 scaler.tls=off
db.url=- db.host=localhost db.port=5432 db.name=jobqueue db.user=jq_user db.password=- db.sslmode=-
db.ssl_root_cert=- db.pool_size=10 db.connect_timeout_ms=3000 db.pgbouncer=false
redis.addr=- redis.username=- redis.password=- redis.db=0 redis.tls=false
redis.connect_timeout_ms=1000 redis.lock_ttl_ms=15000
kafka.brokers=- kafka.topic=jobqueue.events kafka.security_protocol=- kafka.sasl.mechanism=-
kafka.sasl.username=- kafka.sasl.password=- kafka.producer.acks=all
kafka.producer.compression=snappy kafka.options=-
scheduler.interval_ms=500 scheduler.batch_size=100 scheduler.assignment_timeout_s=60
scheduler.worker_heartbeat_timeout_s=30 lease.duration_s=30 lease.renew_interval_s=10
reaper.interval_ms=1000 reaper.batch_size=500 reaper.done_retention_days=7
reaper.event_retention_days=30 reaper.crash_limit=3
retry.max_retries=3 retry.base_delay_s=5 retry.max_delay_s=300 retry.multiplier=2
worker.heartbeat_interval_s=5 worker.shutdown_grace_period_s=60 worker.kill_grace_s=5
worker.default_timeout_s=0 worker.stall_limit_s=300 worker.prefetch=0 worker.processes=1
worker.allow_shell=false worker.handlers=- worker.commands=-
worker.pod_deletion_cost=false worker.pod_deletion_cost_interval_s=60
worker.kubernetes_credentials_dir=/var/run/secrets/kubernetes.io/serviceaccount
server.shutdown_grace_period_s=30
auth.api_keys=- auth.jwt_secret=- auth.jwt_audience=-
limits.payload_bytes=1048576 limits.result_bytes=1048576 limits.error_bytes=16384
limits.event_bytes=65536 limits.batch_jobs=10000 limits.batch_bytes=33554432
limits.message_bytes=37748736 limits.name_length=128 limits.key_bytes=256 limits.labels=32
limits.label_bytes=256 limits.max_retries=1000 limits.delay_s=315360000
metrics.port=9090 health.port=8080 logging.level=info logging.format=json
tracing.process_as=child
"""


def load_with(**by_variable: str) -> tuple[str, ...]:
    return load_settings(flags={}, env=by_variable, path=None).warnings


def fault_keys(values: dict[str, str]) -> list[str]:
    env = {variable_of(key): value for key, value in values.items()}
    with pytest.raises(SettingsError) as caught:
        load_settings(flags={}, env=env, path=None)
    return [fault.key for fault in caught.value.faults]


def test_the_keys_and_defaults_are_those_of_the_contract() -> None:
    wanted = dict(item.split("=") for item in DEFAULTS.split())
    assert shown() == wanted
    assert list(wanted) == list(RULES)


def shown() -> dict[str, str]:
    return describe(Settings())


def test_the_limits_are_those_of_the_domain() -> None:
    assert asdict(Settings().limits) == asdict(Limits())


def test_the_default_policy_is_that_of_the_domain() -> None:
    retry, policy = Settings().retry, RetryPolicy()
    assert retry.base_delay_s == policy.base_delay_s
    assert retry.max_delay_s == policy.max_delay_s
    assert retry.multiplier == policy.multiplier


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"lease.duration_s": "29"}, "lease.renew_interval_s"),
        ({"lease.renew_interval_s": "10.1"}, "lease.renew_interval_s"),
        ({"worker.heartbeat_interval_s": "15.5"}, "scheduler.worker_heartbeat_timeout_s"),
        ({"scheduler.worker_heartbeat_timeout_s": "9"}, "scheduler.worker_heartbeat_timeout_s"),
        ({"worker.stall_limit_s": "4"}, "worker.stall_limit_s"),
        ({"worker.kill_grace_s": "61"}, "worker.kill_grace_s"),
        ({"retry.base_delay_s": "301"}, "retry.base_delay_s"),
        ({"limits.delay_s": "299"}, "retry.max_delay_s"),
        ({"limits.max_retries": "2"}, "retry.max_retries"),
        ({"limits.batch_bytes": "1000"}, "limits.payload_bytes"),
        ({"limits.message_bytes": "2000000"}, "limits.batch_bytes"),
        ({"grpc.port": "9090"}, "metrics.port"),
        ({"health.port": "50051"}, "health.port"),
        ({"db.url": "mysql://x"}, "db.url"),
        ({"db.url": "db.example:5432"}, "db.url"),
        ({"db.url": "postgresql://[::1/x"}, "db.url"),
        ({"db.url": "postgresql://u@h/d", "db.host": "other"}, "db.host"),
        ({"db.url": "postgresql://u:p@h/d", "db.password": "q"}, "db.password"),
        ({"db.host": "a:b"}, "db.host"),
        ({"db.host": "db:5432"}, "db.host"),
        ({"db.host": "a,[b]"}, "db.host"),
        ({"db.host": "user@db"}, "db.host"),
        ({"db.host": "db/jobs"}, "db.host"),
        ({"db.host": "db one"}, "db.host"),
        ({"db.host": "db,"}, "db.host"),
        ({"scaler.port": "8080"}, "health.port"),
        ({"scaler.port": "50051"}, "scaler.port"),
        ({"scaler.tls": "server"}, "scaler.tls"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "kafka.sasl.mechanism"),
        ({"kafka.security_protocol": "SASL_SSL"}, "kafka.sasl.mechanism"),
    ],
)
def test_what_cannot_work_together_is_refused(values: dict[str, str], key: str) -> None:
    assert fault_keys(values) == [key]


def test_tls_needs_its_files() -> None:
    assert fault_keys({"grpc.tls.enabled": "true"}) == ["grpc.tls.cert_path", "grpc.tls.key_path"]


def test_a_scaler_that_wants_client_certificates_needs_their_ca() -> None:
    values = {"grpc.tls.enabled": "true", "grpc.tls.cert_path": "c", "grpc.tls.key_path": "k"}
    assert fault_keys(values | {"scaler.tls": "mutual"}) == ["grpc.tls.ca_path"]


def test_a_password_mechanism_needs_a_login() -> None:
    values = {"kafka.security_protocol": "SASL_SSL", "kafka.sasl.mechanism": "plain"}
    assert fault_keys(values) == ["kafka.sasl.username", "kafka.sasl.password"]


def test_a_value_that_is_wrong_by_itself_is_reported_once() -> None:
    assert fault_keys({"lease.renew_interval_s": "never"}) == ["lease.renew_interval_s"]


def test_free_ports_do_not_collide() -> None:
    assert load_with(JQ_GRPC_PORT="0", JQ_METRICS_PORT="0", JQ_HEALTH_PORT="0") == ()


@pytest.mark.parametrize("taken", ["9090", "8080", "50051"])
def test_a_workers_port_may_be_one_that_a_server_has(taken: str) -> None:
    for key in ("JQ_HEALTH_PORT", "JQ_METRICS_PORT"):
        load_settings(flags={}, env={key: taken}, path=None, ports=WORKER_PORTS)


@pytest.mark.parametrize(("key", "value"), [("metrics.port", "8081"), ("health.port", "9091")])
def test_a_workers_port_is_judged_beside_its_own_defaults(key: str, value: str) -> None:
    env = {variable_of(key): value}
    with pytest.raises(SettingsError, match=f"{value}, which metrics.port uses already"):
        load_settings(flags={}, env=env, path=None, ports=WORKER_PORTS)


def test_a_lease_longer_than_the_heartbeat_timeout_is_warned_about() -> None:
    (warning,) = load_with(JQ_LEASE_DURATION_S="31")
    assert warning.startswith("lease.duration_s (31) is longer than")


@pytest.mark.parametrize(
    "host",
    [
        "db",
        "db.example",
        "10.0.0.1",
        "::1",
        "[::1]",
        "fe80::1%eth0",
        "a,b,::1",
        "/run/pg",
        "bücher",
    ],
)
def test_a_host_that_can_be_one_makes_an_address(host: str) -> None:
    settings = load_settings(flags={}, env={"JQ_DB_HOST": host}, path=None).settings
    assert urlsplit(database_dsn(settings.db)).scheme == "postgresql"


def test_an_audience_needs_a_secret() -> None:
    assert fault_keys({"auth.jwt_audience": "jobqueue"}) == ["auth.jwt_audience"]


def test_certificates_without_tls_are_warned_about() -> None:
    (warning,) = load_with(JQ_GRPC_TLS_CERT_PATH="/cert.pem")
    assert "plaintext is served" in warning
