"""What `--version` says (R-1.1)."""

import re
from pathlib import Path

import pytest

from jobqueue.runtime.version import UNKNOWN, commit, version_line


def installed_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that the package lies in `folder`, and return it."""
    package = folder / "jobqueue"
    package.mkdir()
    monkeypatch.setattr("jobqueue.runtime.version.resources.files", lambda _: package)
    return package


def test_the_line_is_the_release_and_the_commit() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+ \(([0-9a-f]{12}|unknown)\)", version_line())


def test_a_built_package_knows_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (installed_in(tmp_path, monkeypatch) / "_commit.txt").write_text("0123456789ab\n")
    assert commit() == "0123456789ab"


def test_without_git_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_in(tmp_path, monkeypatch)
    assert commit() == UNKNOWN


def test_a_broken_repository_gives_an_unknown_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_in(tmp_path, monkeypatch)
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert commit() == UNKNOWN


def test_without_the_git_program_the_commit_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_in(tmp_path, monkeypatch)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == UNKNOWN
