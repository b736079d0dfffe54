"""The Dockerfile says what is there: sources, settings, users, versions (R-10.1)."""

import fnmatch
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jobqueue.config.keys import VARIABLES
from tests.deploy.support_dockerfile import ROOT, last, read_dockerfile, variables, whole

IMAGES = ("server", "worker", "ctl")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def sent_along(path: str) -> bool:
    """Tell whether .dockerignore, which names what is sent, lets a path through."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = [line[1:] for line in lines if line.startswith("!")]
    return any(path == name or path.startswith(f"{name}/") for name in kept)


def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    found = subprocess.run(
        [linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_everything_that_is_copied_exists_and_is_sent_to_the_build() -> None:
    copies = [each.rest.split()[:-1] for each in read_dockerfile() if each.word == "COPY"]
    sources = {name for names in copies if not names[0].startswith("--") for name in names}
    assert {"jobqueue", "alembic", "deploy/image"} <= sources
    assert [name for name in sources if not (ROOT / name).exists() or not sent_along(name)] == []


def test_what_the_build_is_sent_has_no_part_that_it_does_not_use() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        name for each in read_dockerfile() if each.word == "COPY" for name in each.rest.split()
    }
    assert [line for line in lines if line.startswith("!") and line[1:] not in copied] == []
    assert "*" in lines


def test_every_stage_is_an_image_or_part_of_one() -> None:
    stages = {each.stage for each in read_dockerfile() if each.word == "FROM"}
    used = {each.rest.split()[0] for each in read_dockerfile() if each.word == "FROM"}
    used |= set(re.findall(r"--from=(\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8")))
    assert stages - used == set(IMAGES)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_its_program_as_nobody_in_particular(image: str) -> None:
    assert last(image, "USER") == "65532:65532"
    assert json.loads(last(image, "ENTRYPOINT"))[-1] == f"/app/.venv/bin/jq-{image}"
    assert last(image, "STOPSIGNAL") == "SIGTERM"


def test_orphans_of_jobs_are_buried_by_an_init_process() -> None:
    assert json.loads(last("worker", "ENTRYPOINT"))[:2] == ["/usr/bin/tini", "--"]
    installed = [each.rest for each in whole("worker") if each.word == "RUN"]
    assert any("tini" in words.split() for words in installed)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_writes_no_bytecode_and_lives_in_tmp(image: str) -> None:
    found = variables(image)
    assert found["PYTHONDONTWRITEBYTECODE"] == "1"
    assert found["HOME"] == "/tmp"


@pytest.mark.parametrize("image", IMAGES)
def test_the_variables_of_an_image_are_settings_and_its_ports_are_exposed(image: str) -> None:
    ours = {name: value for name, value in variables(image).items() if name.startswith("JQ_")}
    assert ours.keys() <= VARIABLES.keys()
    exposed = " ".join(each.rest for each in whole(image) if each.word == "EXPOSE").split()
    assert {value for name, value in ours.items() if name.endswith("_PORT")} <= set(exposed)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_labelled_with_the_version_of_the_project(image: str) -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', last(image, "LABEL")))
    assert labels["version"] == PROJECT["version"]
    assert labels["licenses"] == PROJECT["license"]
    assert labels["revision"] == "${COMMIT}"
    assert labels.keys() >= {"title", "description"}


def test_what_stays_is_checked_for_health_and_what_ends_is_not() -> None:
    for image in ("server", "worker"):
        command = json.loads(last(image, "HEALTHCHECK").partition("CMD ")[2])
        assert command == ["/app/.venv/bin/python", "-m", "jobqueue.cli.healthcheck"]
    assert last("ctl", "HEALTHCHECK") == "NONE"


def test_nothing_that_python_leaves_behind_is_sent_to_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert any(fnmatch.fnmatch("jobqueue/cli/__pycache__", line) for line in lines)
