"""The workflows for GitHub are valid, run targets that there are, and can do no harm."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").iterdir())
TEXTS = {file.stem: file.read_text(encoding="utf-8") for file in FILES}
TEXT = "\n".join(TEXTS.values())

Job = dict[str, Any]
WORKFLOWS: dict[str, dict[str, Any]] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS: dict[str, Job] = {
    f"{name}/{job}": told for name, flow in WORKFLOWS.items() for job, told in flow["jobs"].items()
}
STEPS = [step for job in JOBS.values() for step in job["steps"]]

each_job = pytest.mark.parametrize("name", sorted(JOBS))


def test_they_are_what_github_takes_for_workflows() -> None:
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "check_jsonschema"),
            *("--builtin-schema", "vendor.github-workflows", *map(str, FILES)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


def test_every_target_that_it_makes_exists() -> None:
    made = set(re.findall(r"\bmake ([\w-]+)", "\n".join(step.get("run", "") for step in STEPS)))
    made |= set(JOBS["nightly/long"]["strategy"]["matrix"]["target"])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):.*##", makefile, re.MULTILINE))
    assert made <= targets
    assert {"check", "test", "coverage", "k8s-validate", "terraform-validate", "image"} <= made
    assert {"chaos", "chaos-long", "soak", "mutants", "model", "model-mutants"} <= made


def test_every_action_is_named_by_a_commit_and_its_release() -> None:
    used = re.findall(r"uses: (.*)$", TEXT, re.MULTILINE)
    assert used
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not pinned.fullmatch(line)] == []


def test_one_action_has_one_commit() -> None:
    pins = set(re.findall(r"uses: ([\w/-]+)@(\w+)", TEXT))
    assert len(pins) == len({action for action, _ in pins})


def test_it_may_read_the_code_and_nothing_else() -> None:
    assert [flow["permissions"] for flow in WORKFLOWS.values()] == [{"contents": "read"}] * 2
    assert [name for name, job in JOBS.items() if "permissions" in job] == []
    assert "secrets." not in TEXT
    assert "pull_request_target" not in TEXT
    checkouts = [step for step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@each_job
def test_no_text_of_a_stranger_becomes_part_of_a_command(name: str) -> None:
    commands = [step["run"] for step in JOBS[name]["steps"] if "run" in step]
    assert [command for command in commands if "${{" in command] == []


@each_job
def test_every_job_ends_by_itself(name: str) -> None:
    most = 300 if name.startswith("nightly/") else 60
    assert 0 < JOBS[name]["timeout-minutes"] <= most


def test_every_python_that_is_promised_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert JOBS["ci/test"]["strategy"]["matrix"]["python"] == promised


def test_what_decides_waits_for_all_other_jobs() -> None:
    jobs = WORKFLOWS["ci"]["jobs"]
    assert set(jobs["passed"]["needs"]) == set(jobs) - {"passed"}
