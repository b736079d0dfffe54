"""The example worker in another language, against a real server."""

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Ctl
from tests.support.programs import Program, environment
from tests.support.waiting import eventually_sync

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "node-worker"

pytestmark = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="node and npm are not installed"
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with what its lock file names. Skipped without a registry."""
    folder = tmp_path_factory.mktemp("node") / "worker"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    made = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"npm packages cannot be had: {made.stderr[-300:]}")
    return folder


@pytest.fixture
def worker(installed: Path, ctl: Ctl, queue: str, tmp_path: Path) -> Iterator[Program]:
    logs = tmp_path / "node-logs"
    logs.mkdir()
    env = {**environment(server_addr=ctl.address), "JQ_PROTO_DIR": str(ROOT / "proto")}
    argv = ["node", str(installed / "worker.js"), "--worker-id", "node-1", "--queues", queue]
    program = Program(argv, logs, env | {"PATH": os.environ["PATH"]})
    try:
        yield program.ready()
    finally:
        program.kill()


def starts(worker: Program, job_id: str) -> None:
    """Wait until the worker says that it runs a job."""

    def look() -> bool:
        said = [(line["message"], line.get("job_id")) for line in worker.lines()]
        return ("started", job_id) in said

    eventually_sync(look, within_s=40, what=f"the start of {job_id}")


def test_it_runs_jobs_and_tells_their_outcomes(worker: Program, ctl: Ctl, queue: str) -> None:
    hashed = ctl.submit("--type", "hash", queue=queue, payload="grüße")
    failing = ctl.submit(
        "--type", "wait", "--run-timeout", "0.2", "--max-retries", "0", queue=queue, payload="30"
    )
    strange = ctl.submit("--type", "strange", queue=queue)
    job = ctl.becomes(hashed, "DONE")
    assert job["result"] == hashlib.sha256("grüße".encode()).hexdigest()
    assert job["worker_id"] == "node-1"
    assert "took too long" in ctl.becomes(failing, "DEAD_LETTERED")["last_error"]
    assert ctl.becomes(strange, "FAILED")["reason"] == "NO_HANDLER"


def test_whoever_submits_finds_only_its_handlers_and_may_let_them_run_for_years(
    worker: Program, ctl: Ctl, queue: str
) -> None:
    inherited = ctl.submit("--type", "constructor", queue=queue)
    patient = ctl.submit(
        "--type", "wait", "--run-timeout", "300000000", queue=queue, payload="0.01"
    )
    assert ctl.becomes(inherited, "FAILED")["reason"] == "NO_HANDLER"
    assert ctl.becomes(patient, "DONE")["result"] == "waited"


def test_it_tells_how_far_it_is_and_hears_of_a_cancel(
    worker: Program, ctl: Ctl, queue: str
) -> None:
    job_id = ctl.submit("--type", "wait", queue=queue, payload="60")
    starts(worker, job_id)

    def told() -> bool:
        said = ctl.json("job", "status", job_id)["progress_message"]
        return bool(said and said.endswith("of 10 steps"))

    eventually_sync(told, within_s=40, what="the progress")
    ctl.ok("job", "cancel", job_id, "--running")
    assert ctl.becomes(job_id, "DEAD_LETTERED")["reason"] == "CANCELLED"


def test_sigterm_lets_it_finish_what_runs(worker: Program, ctl: Ctl, queue: str) -> None:
    job_id = ctl.submit("--type", "wait", queue=queue, payload="2")
    starts(worker, job_id)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0, worker.text()
    assert ctl.becomes(job_id, "DONE")["attempt"] == 1
    assert "node-1" not in ctl.ok("worker", "list")
