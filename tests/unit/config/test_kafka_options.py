"""What is passed on to the Kafka library: in which form, what it must not touch, what is hidden."""

from pathlib import Path

import pytest

from jobqueue.config.describe import describe
from jobqueue.config.load import Loaded, load_settings
from jobqueue.config.secret import MASK, Secret
from jobqueue.errors import SettingsError
from jobqueue.events.publisher import check_options, producer_options

SECRETS = (
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
)


def load(options: str, **env: str) -> Loaded:
    given = {"JQ_KAFKA_BROKERS": "k:9092", "JQ_KAFKA_OPTIONS": options}
    return load_settings(flags={}, env=given | env, path=None)


def refusal(options: str) -> str:
    with pytest.raises(SettingsError) as caught:
        check_options(load(options).settings.kafka)
    (fault,) = caught.value.faults
    assert fault.key == "kafka.options"
    return fault.message


def test_options_reach_the_library_as_its_own_text_and_beat_what_we_prefer() -> None:
    kafka = load("{linger.ms: 20, enable.ssl.certificate.verification: false}").settings.kafka
    options = producer_options(kafka)
    assert options["linger.ms"] == "20"
    assert options["enable.ssl.certificate.verification"] == "false"
    assert options["partitioner"] == "murmur2_random"
    check_options(kafka)


def test_a_file_gives_them_as_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "jobqueue.yaml"
    file.write_text("kafka: {options: {ssl.ca.location: /etc/ca.pem}}")
    loaded = load_settings(flags={}, env={"JQ_ENV": "production"}, path=file)
    assert loaded.settings.kafka.options == {"ssl.ca.location": "/etc/ca.pem"}
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", SECRETS)
def test_what_sounds_secret_is_hidden_and_belongs_in_the_environment(
    name: str, tmp_path: Path
) -> None:
    loaded = load(f'{{"{name}": "hunter2", "client.id": "me"}}')
    assert loaded.settings.kafka.options[name] == Secret("hunter2")
    assert describe(loaded.settings)["kafka.options"] == f"{name}: {MASK}; client.id: me"
    assert "hunter2" not in repr(loaded)
    assert producer_options(loaded.settings.kafka)[name] == "hunter2"
    file = tmp_path / "jobqueue.yaml"
    file.write_text(f"kafka: {{options: {{{name}: hunter2}}}}")
    (warning,) = load_settings(flags={}, env={}, path=file).warnings
    assert warning == "kafka.options is a secret in a file: set it by environment instead"
    with pytest.raises(SettingsError, match=r"kafka\.options: is a secret in a file"):
        load_settings(flags={}, env={"JQ_ENV": "production"}, path=file)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_yaml_takes_for_a_number_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(SettingsError, match="must have text for") as caught:
        load(f"{{{name}: 4711}}")
    assert "4711" not in str(caught.value)


def test_a_name_that_the_library_does_not_know_is_told() -> None:
    message = refusal("{ssl.ca.loction: /etc/ca.pem}")
    assert message == 'No such configuration property: "ssl.ca.loction"'


def test_a_certificate_that_cannot_be_read_is_told() -> None:
    options = "{ssl.ca.location: /nowhere/ca.pem}"
    with pytest.raises(SettingsError, match=r"kafka\.options: .*ssl\.ca\.location failed"):
        check_options(load(options, JQ_KAFKA_SECURITY_PROTOCOL="SSL").settings.kafka)


def test_what_the_library_says_about_a_secret_does_not_show_it() -> None:
    options = '{"ssl.key.pem": "hunter2"}'
    with pytest.raises(SettingsError, match=r"ssl\.key\.pem failed") as caught:
        check_options(load(options, JQ_KAFKA_SECURITY_PROTOCOL="SSL").settings.kafka)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("bootstrap.servers", "kafka.brokers"),
        ("sasl.password", "kafka.sasl.password"),
        ("acks", "kafka.producer.acks"),
        ("enable.idempotence", "set by jobqueue"),
    ],
)
def test_what_has_its_own_key_or_is_relied_on_is_refused(name: str, instead: str) -> None:
    with pytest.raises(SettingsError, match=f"must not set {name}: that is {instead}"):
        load(f'{{"{name}": "x"}}')


@pytest.mark.parametrize("options", ["[" * 3000, "{a: x, a: y}", "{a: 2026-13-45}"])
def test_options_that_cannot_be_read_are_one_fault(options: str) -> None:
    with pytest.raises(SettingsError, match=r"^kafka.options: is not YAML: "):
        load(options)
