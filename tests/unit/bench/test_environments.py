import json
from pathlib import Path

import pytest

from bench.contestants import PEERS, install
from bench.environments import _folder, _numbers, npm_version
from bench.errors import NotInstallable
from bench.peers import base


@pytest.mark.parametrize(
    ("version", "expected"), [("v22.12.0", (22, 12, 0)), ("v9.1.0", (9, 1, 0)), ("", ())]
)
def test_versions_are_compared_as_numbers(version: str, expected: tuple[int, ...]) -> None:
    assert _numbers(version) == expected
    assert _numbers("v22.12.0") >= (22, 12) > _numbers("v9.1.0") > _numbers("")


def test_other_requirements_are_another_environment(tmp_path: Path) -> None:
    first, second = (_folder(tmp_path, "peer", [f"peer=={n}"]) for n in (1, 2))
    assert first != second
    assert first == _folder(tmp_path, "peer", ["peer==1"])


def test_the_version_of_a_package_is_the_installed_one(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "peer" / "package.json"
    package.parent.mkdir(parents=True)
    package.write_text(json.dumps({"version": "1.2.3"}))
    assert npm_version(tmp_path, "peer") == "1.2.3"


async def test_a_peer_that_cannot_be_had_is_reported_and_the_others_take_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_arguments: object, **_options: object) -> Path:
        raise NotInstallable("there is no network")

    monkeypatch.setattr(base, "python_environment", refuse)
    said: list[str] = []
    systems, versions, absent = await install(frozenset({"pgqueuer"}), tmp_path, said.append)
    assert (set(systems), set(versions)) == ({"jobqueue"}, {"jobqueue"})
    assert absent["pgqueuer"] == "there is no network"
    assert "River" in absent
    assert "  not installable: there is no network" in said


async def test_nobody_is_missed_where_peers_were_not_asked_for(tmp_path: Path) -> None:
    _, _, absent = await install(frozenset(), tmp_path, lambda _text: None)
    assert absent == {}
    assert PEERS
