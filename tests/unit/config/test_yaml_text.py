"""Whatever is wrong with a file, or with one value of it, is one line that quotes no value."""

from pathlib import Path

import pytest

from jobqueue.config.keys import RULES
from jobqueue.config.load import load_settings
from jobqueue.config.rules import TextList
from jobqueue.config.yaml_text import read_yaml
from jobqueue.errors import Fault, SettingsError

LISTS = {key for key, rule in RULES.items() if isinstance(rule, TextList)}
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


BOMB = "\n".join(
    ["a: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
)
"""Nine lists of nine, each in the next: three and a half billion elements in 600 bytes."""


@pytest.mark.parametrize("key", sorted(RULES))
def test_a_list_of_a_billion_elements_is_no_value_of_any_key(key: str) -> None:
    bomb = read_yaml(f"{BOMB}\n")
    assert isinstance(bomb, dict)
    with pytest.raises(SettingsError) as caught:
        load_settings(flags={key: bomb["a9"]}, env={}, path=None)
    assert {fault.key for fault in caught.value.faults} == {key}
    assert len(caught.value.faults[0].message) < 1_000


@pytest.mark.parametrize("key", ["? *a9\n: 1", "? [a, b]\n: 1", "? {a: b}\n: 1"])
def test_a_key_that_is_no_text_is_told_by_its_line(tmp_path: Path, key: str) -> None:
    (fault,) = faults(tmp_path, f"{BOMB}\n{key}\n")
    assert fault.message.startswith("is not YAML: a key that is no text in line")


def test_aliases_among_unknown_keys_are_told_by_their_keys(tmp_path: Path) -> None:
    assert {fault.key for fault in faults(tmp_path, BOMB)} == {
        "a",
        *(f"a{n}" for n in range(1, 10)),
    }


@pytest.mark.parametrize("path", ["/dev/zero", "large"])
def test_a_file_without_an_end_is_told(tmp_path: Path, path: str) -> None:
    with (tmp_path / "large").open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(SettingsError, match="is larger than 1048576 bytes"):
        load_settings(flags={}, env={}, path=tmp_path / path)


def test_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load_settings(flags={}, env={}, path=tmp_path)


def test_all_that_is_wrong_in_every_way_is_told_at_once(tmp_path: Path) -> None:
    """A list is no value where a number or word is wanted, a number none where a list is."""
    wrong: dict[str, object] = {key: 5 if key in LISTS else {"a": []} for key in RULES}
    with pytest.raises(SettingsError) as caught:
        load_settings(flags=wrong, env={}, path=None)
    assert {fault.key for fault in caught.value.faults} == RULES.keys()


def test_an_off_that_is_not_quoted_is_the_word(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("scaler: {tls: off}\n")
    assert load_settings(flags={}, env={}, path=path).settings.scaler.tls == "off"
    assert [fault.key for fault in faults(tmp_path, "kafka: {acks: off}\n")] == ["kafka.acks"]
