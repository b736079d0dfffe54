"""Whatever is wrong with a file, or with one value of it, is one line that quotes no value."""

from pathlib import Path

import pytest

from jobqueue.config.load import load_settings
from jobqueue.errors import Fault, SettingsError

SECRET = "hunter2-is-not-a-number"


def faults(tmp_path: Path, text: str) -> list[Fault]:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(flags={}, env={}, path=path)
    return list(caught.value.faults)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("2026-13-45", "timestamp"),
        ("2026-01-01T99:99:99", "timestamp"),
        (f"!!int {SECRET}", "int"),
        (f"!!float {SECRET}", "float"),
        (f"!!bool {SECRET}", "bool"),
        (f"!!timestamp {SECRET}", "timestamp"),
        ("9" * 5_000, "int"),
    ],
)
def test_a_value_that_yaml_cannot_convert_is_told_by_its_line(
    tmp_path: Path, value: str, kind: str
) -> None:
    (fault,) = faults(tmp_path, f"db:\n  password: {value}\n")
    assert fault.message == f"is not YAML: a value that cannot be read as {kind} in line 2"


def test_a_bottomless_file_is_told(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "[" * 700)
    assert fault.message == "is not YAML: it is nested too deeply"


@pytest.mark.parametrize("variable", ["JQ_GRPC_PORT", "JQ_DB_SSLMODE", "JQ_LEASE_DURATION_S"])
def test_a_huge_value_is_told_in_one_short_line(variable: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags={}, env={variable: "9" * 1_000_000}, path=None)
    assert all(len(fault.message) < 250 for fault in caught.value.faults)


def test_a_number_that_python_does_not_spell_out_is_told(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, f"grpc: {{port: 0x{'f' * 5_000}}}")
    assert fault.message.endswith("not a huge number")


@pytest.mark.parametrize("text", ["2026-13-45", "!!timestamp x", "{a: [b]", "[" * 700])
def test_commands_that_are_no_yaml_are_told_by_their_key(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags={}, env={"JQ_WORKER_COMMANDS": text}, path=None)
    (fault,) = caught.value.faults
    assert fault.key == "worker.commands"
    assert fault.message.startswith("must map job types to command lines")
