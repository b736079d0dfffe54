"""Precedence, faults, warnings and secrets of settings."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.config.keys import RULES, SECRETS, SECTIONS, VARIABLES, value_of, variable_of
from jobqueue.config.load import Loaded, load_settings
from jobqueue.config.model import Settings
from jobqueue.errors import SettingsError

# Long enough for a signing secret, and an API key where one is wanted.
PASSWORD = "app:submit:hunter2-hunter2-hunter2"
PARTLY = frozenset({"db.url", "kafka.options"})
"""Keys whose values hold a secret or not."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobqueue.yaml"


def load(
    yaml: str = "",
    *,
    file: Path | None = None,
    env: dict[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> Loaded:
    if file is not None:
        file.write_text(yaml)
    return load_settings(flags=flags or {}, env=env or {}, path=file)


def faults(
    yaml: str = "",
    *,
    file: Path | None = None,
    env: dict[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load(yaml, file=file, env=env, flags=flags)
    return {fault.key: fault.message for fault in caught.value.faults}


def test_nothing_given_means_the_defaults_and_no_warning() -> None:
    loaded = load()
    assert loaded.settings == Settings()
    assert loaded.warnings == ()
    assert loaded.given == frozenset()


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(file: Path) -> None:
    yaml = "grpc: {port: 1}\nmetrics: {port: 2}\nhealth: {port: 3}"
    env = {"JQ_GRPC_PORT": "11", "JQ_METRICS_PORT": "12"}
    settings = load(yaml, file=file, env=env, flags={"grpc.port": 21}).settings
    assert settings.grpc.port == 21
    assert settings.metrics.port == 12
    assert settings.health.port == 3
    assert settings.db.port == 5432


def test_a_flag_that_was_not_used_does_not_hide_the_environment() -> None:
    loaded = load(env={"JQ_GRPC_PORT": "11"}, flags={"grpc.port": None})
    assert loaded.settings.grpc.port == 11


def test_a_flag_without_a_key_is_a_mistake_of_the_program() -> None:
    with pytest.raises(KeyError, match=r"grpc\.prot"):
        load(flags={"grpc.prot": 1})


def test_an_empty_variable_counts_as_unset() -> None:
    assert load(env={"JQ_GRPC_PORT": ""}).settings.grpc.port == 50051


def test_an_empty_value_or_section_in_the_file_counts_as_unset(file: Path) -> None:
    assert load("grpc:\n  port:\nredis:\n", file=file).settings == Settings()


def test_an_empty_file_is_fine(file: Path) -> None:
    assert load("# nothing yet\n", file=file).settings == Settings()


def test_lists_are_separated_by_commas_in_the_environment_and_lists_in_a_file(file: Path) -> None:
    env = {"JQ_KAFKA_BROKERS": "a:9092, b:9092,"}
    settings = load("worker: {handlers: [app.jobs, app.more]}", file=file, env=env).settings
    assert settings.kafka.brokers == ("a:9092", "b:9092")
    assert settings.worker.handlers == ("app.jobs", "app.more")


def test_commands_are_a_mapping_in_the_file_and_json_in_the_environment(file: Path) -> None:
    wanted = {"hash.sha": ("sha256sum", "-b")}
    yaml = "worker: {commands: {hash.sha: [sha256sum, -b]}}"
    assert load(yaml, file=file).settings.worker.commands == wanted
    env = {"JQ_WORKER_COMMANDS": '{"hash.sha": ["sha256sum", "-b"]}'}
    assert load(env=env).settings.worker.commands == wanted


def test_durations_accept_fractions() -> None:
    env = {"JQ_LEASE_DURATION_S": "1.5", "JQ_LEASE_RENEW_INTERVAL_S": "0.25"}
    assert load(env=env).settings.lease.duration_s == 1.5


def test_every_fault_is_reported_at_once_in_the_order_of_the_keys(file: Path) -> None:
    yaml = "nonsense: 1\nlease: {duration_s: long}\ngrpc: {port: 70000}\nretry: 3"
    found = faults(yaml, file=file, env={"JQ_DB_POOL_SIZE": "many"})
    assert list(found) == ["grpc.port", "db.pool_size", "lease.duration_s", "nonsense", "retry"]
    assert found["grpc.port"] == "must be a whole number from 0 to 65535, not 70000"
    assert found["retry"] == "is a section, not a value"


def test_an_unknown_key_is_named_with_the_one_that_was_meant(file: Path) -> None:
    found = faults("lease: {duration: 3}", file=file)
    assert found == {"lease.duration": "unknown key; did you mean lease.duration_s?"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("grpc.port", "-1"),
        ("grpc.port", "1.5"),
        ("grpc.port", "1e3"),
        ("grpc.port", "1_000"),
        ("grpc.port", "\u0663\u0663"),  # digits, of another script
        ("db.port", "0"),
        ("db.pool_size", "2"),
        ("db.pgbouncer", "maybe"),
        ("db.sslmode", "sometimes"),
        ("lease.duration_s", "nan"),
        ("lease.duration_s", "inf"),
        ("lease.duration_s", "0"),
        ("retry.multiplier", "0.5"),
        ("retry.max_retries", "1001"),
        ("reaper.crash_limit", "0"),
        ("logging.level", "loud"),
        ("limits.payload_bytes", str(1024 * 1024 + 1)),
        ("limits.batch_jobs", "10001"),
        ("worker.commands", "sha256sum"),
        ("worker.commands", '{"a": []}'),
        ("worker.commands", '{"a": "sha256sum"}'),
        ("worker.commands", "{"),
        ("kafka.producer.acks", "2"),
        ("kafka.options", "acks"),
        ("kafka.options", '{"batch.size": 1.5}'),
        ("kafka.options", '{"batch.size": [1]}'),
        ("kafka.options", '{"1": 2'),
        ("kafka.options", "{1: 2}"),
        ("kafka.options", '{"error_cb": "print"}'),
        ("kafka.options", '{"partitioner": "random"}'),
        ("kafka.options", '{"bootstrap.servers": "k:1"}'),
    ],
)
def test_a_value_out_of_range_or_of_the_wrong_type_names_its_key(key: str, value: str) -> None:
    assert list(faults(env={variable_of(key): value})) == [key]


@pytest.mark.parametrize(
    "yaml",
    [
        "grpc: {port: true}",
        "grpc: {port: [1]}",
        "grpc: {port: {a: 1}}",
        "db: {host: 127}",
        "db: {name: ''}",
        "db: {pgbouncer: 1}",
        "kafka: {brokers: 9092}",
        "kafka: {brokers: [9092]}",
        "lease: {duration_s: yes}",
        "auth: {api_keys: 5}",
    ],
)
def test_a_wrong_type_in_the_file_names_its_key(yaml: str, file: Path) -> None:
    section, _, rest = yaml.partition(": {")
    assert list(faults(yaml, file=file)) == [f"{section}.{rest.partition(':')[0]}"]


def test_a_file_that_cannot_be_read_is_a_fault_that_names_it(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load_settings(flags={}, env={}, path=missing)


@pytest.mark.parametrize("yaml", ["a: [", "- a\n- b", "just text", "db: {password: 'x\n", "\x00"])
def test_a_file_that_is_no_mapping_is_a_fault_that_names_it(yaml: str, file: Path) -> None:
    assert list(faults(yaml, file=file)) == [str(file)]


def test_bytes_that_are_no_text_are_a_fault_that_names_the_file(file: Path) -> None:
    file.write_bytes(b"db: \xff\xfe\x00")
    with pytest.raises(SettingsError, match="is not YAML"):
        load_settings(flags={}, env={}, path=file)


def test_a_key_is_given_in_its_section_and_nowhere_else(file: Path) -> None:
    found = faults("lease.duration_s: 60\nlease: {duration_s: 45}", file=file)
    assert found == {"lease.duration_s": "has a dot: write each part of it as a section"}


@pytest.mark.parametrize(
    ("wrong", "other"),
    [
        ({"lease.duration_s": "soon"}, {"lease.renew_interval_s": 15}),
        ({"grpc.port": "x"}, {"health.port": 50051}),
        ({"grpc.tls.enabled": "maybe"}, {"scaler.tls": "server"}),
        ({"auth.jwt_secret": "short"}, {"auth.jwt_audience": "jobs"}),
    ],
)
def test_nothing_is_judged_beside_a_value_that_could_not_be_read(
    wrong: dict[str, object], other: dict[str, object]
) -> None:
    assert list(faults(flags={**wrong, **other})) == list(wrong)


def test_a_key_given_twice_is_a_fault_with_its_line(file: Path) -> None:
    found = faults("grpc:\n  port: 1\n  port: 2\n", file=file)
    assert found == {str(file): "is not YAML: key 'port' is given twice in line 3"}


def test_unknown_variables_give_one_warning_that_names_all() -> None:
    warnings = load(env={"JQ_NONSENSE": "1", "JQ_GRPC_PROT": "2", "PATH": "/bin"}).warnings
    assert warnings == ("unknown environment variables are ignored: JQ_GRPC_PROT, JQ_NONSENSE",)


def test_variables_of_other_parts_and_of_kubernetes_are_not_unknown() -> None:
    env = {
        "JQ_ENV": "dev",
        "JQ_SERVER_ADDR": "localhost:1",
        "JQ_API_KEY": "k",
        "JQ_TEST_DATABASE_URL": "postgresql:///x",
        "JQ_JOB_ID": "1",
        "JQ_SERVER_SERVICE_HOST": "10.0.0.1",
        "JQ_SERVER_SERVICE_PORT_GRPC": "50051",
        "JQ_SERVER_PORT": "tcp://10.0.0.1:50051",
        "JQ_SERVER_PORT_50051_TCP_ADDR": "10.0.0.1",
    }
    assert load(env=env).warnings == ()


def test_a_slip_that_looks_like_a_variable_of_ours_is_named() -> None:
    env = {"JQ_LOG_LEVEL": "debug", "JQ_JOB_RETRIES": "3"}
    (warning,) = load(env=env).warnings
    assert warning.endswith("JQ_JOB_RETRIES, JQ_LOG_LEVEL")


def test_kafka_consumer_settings_are_ignored_with_one_line(file: Path) -> None:
    yaml = "kafka: {consumer: {group: a, offsets: {reset: earliest}}}"
    warnings = load(yaml, file=file, env={"JQ_KAFKA_CONSUMER_GROUP": "b"}).warnings
    assert len(warnings) == 1
    assert "kafka.consumer.* is accepted and ignored" in warnings[0]


@pytest.mark.parametrize("key", sorted(SECRETS - PARTLY))
def test_a_secret_in_the_file_is_used_with_a_warning_that_names_its_key(
    key: str, file: Path
) -> None:
    loaded = load(nested(key, PASSWORD), file=file)
    assert loaded.warnings == (f"{key} is a secret in a file: set it by environment instead",)
    assert "hunter2" not in repr(loaded)


@pytest.mark.parametrize("key", sorted(SECRETS - PARTLY))
def test_a_secret_in_the_file_is_refused_in_production(key: str, file: Path) -> None:
    found = faults(nested(key, PASSWORD), file=file, env={"JQ_ENV": "Production"})
    assert list(found) == [key]
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("key", sorted(SECRETS - PARTLY))
def test_a_secret_in_the_environment_is_fine_in_production(key: str) -> None:
    assert load(env={"JQ_ENV": "production", variable_of(key): PASSWORD}).warnings == ()


def test_a_database_url_in_the_file_is_a_secret_only_with_a_password(file: Path) -> None:
    plain = "db: {url: 'postgresql://me@db/jobs'}"
    assert load(plain, file=file, env={"JQ_ENV": "production"}).warnings == ()
    for url in (
        f"postgresql://me:{PASSWORD}@db/jobs",
        f"postgresql://db/jobs?sslpassword={PASSWORD}",
    ):
        secret = f"db: {{url: '{url}'}}"
        assert "db.url is a secret" in load(secret, file=file).warnings[0]
        assert list(faults(secret, file=file, env={"JQ_ENV": "production"})) == ["db.url"]


@pytest.mark.parametrize("key", sorted(SECRETS - {"kafka.options"}))
def test_a_refused_secret_is_not_shown(key: str, file: Path) -> None:
    found = faults(nested(key, "{a: hunter2}"), file=file)
    assert "hunter2" not in str(found)


def test_what_was_set_can_be_asked_by_section() -> None:
    loaded = load(env={"JQ_DB_HOST": "db"})
    assert loaded.sets("db")
    assert not loaded.sets("redis")


def test_each_key_has_its_own_variable() -> None:
    assert len(VARIABLES) == len(RULES)
    assert not SECTIONS & RULES.keys()


def outcome(
    *, env: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> Loaded | SettingsError:
    try:
        return load(env=env, flags=flags)
    except SettingsError as error:
        return error


def nested(key: str, value: str) -> str:
    """Return YAML that sets `key`."""
    names = key.split(".")
    lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(names)]
    return "\n".join(lines) + f" {value}\n"


@given(st.sampled_from(sorted(RULES)), st.text(st.characters(exclude_characters="\x00")))
def test_no_text_of_any_variable_breaks_loading(key: str, text: str) -> None:
    result = outcome(env={variable_of(key): text})
    assert isinstance(result, Loaded) or result.faults


@given(
    st.dictionaries(
        st.sampled_from([*sorted(RULES), *sorted(SECTIONS), "other"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()),
    )
)
def test_no_flag_value_breaks_loading(values: dict[str, object]) -> None:
    flags = {key: value for key, value in values.items() if key in RULES}
    result = outcome(flags=flags)
    assert isinstance(result, Loaded) or {fault.key for fault in result.faults} <= RULES.keys()


@given(st.sets(st.from_regex(r"zz[a-z]{1,8}", fullmatch=True), min_size=1))
def test_all_unknown_keys_are_named(names: set[str]) -> None:
    env = {f"JQ_{name.upper()}": "1" for name in names}
    (warning,) = load(env=env).warnings
    assert all(name in warning for name in env)


@given(st.integers(0, 65_535), st.integers(3, 1_000), st.booleans())
def test_what_is_in_range_is_read_back(port: int, pool: int, flag: bool) -> None:  # noqa: FBT001
    env = {
        "JQ_GRPC_PORT": str(port),
        "JQ_METRICS_PORT": "0",
        "JQ_HEALTH_PORT": "0",
        "JQ_DB_POOL_SIZE": str(pool),
        "JQ_DB_PGBOUNCER": str(flag),
    }
    settings = load(env=env).settings
    read = [value_of(settings, key) for key in ("grpc.port", "db.pool_size", "db.pgbouncer")]
    assert read == [port, pool, flag]
