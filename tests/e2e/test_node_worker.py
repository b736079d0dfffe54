"""The example worker in another language, against a real server."""

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode

from jobqueue.v1 import worker_service_pb2 as pb
from tests.e2e.conftest import Ctl
from tests.support.fake_service import Failure, FakeService
from tests.support.frozen import stopped
from tests.support.manifests.tools import refuse_or_skip
from tests.support.programs import Program, ServerProgram, environment
from tests.support.redis import free_port
from tests.support.waiting import eventually_sync

Start = Callable[..., Program]
Serve = Callable[..., ServerProgram]

INSTALL = (
    *("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
    *("--prefer-offline", "--fetch-retries=0", "--fetch-timeout=20000"),
)
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "node-worker"

pytestmark = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="node and npm are not installed"
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with what its lock file names.

    Skipped without a registry, or a failure with JQ_REQUIRE_NODE=1.
    """
    folder = tmp_path_factory.mktemp("node") / "worker"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    try:
        subprocess.run(INSTALL, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    except subprocess.CalledProcessError as error:
        refuse_or_skip("node", f"npm packages cannot be had: {error.stderr[-300:]}")
    except subprocess.TimeoutExpired:
        refuse_or_skip("node", "npm packages cannot be had within a minute")
    return folder


@pytest.fixture
def start(installed: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a worker of a server and a queue, which ends with the test."""
    logs = tmp_path / "node-logs"
    logs.mkdir()
    started: list[Program] = []

    def start(address: str, queue: str) -> Program:
        env = {**environment(server_addr=address), "JQ_PROTO_DIR": str(ROOT / "proto")}
        argv = ["node", str(installed / "worker.js"), "--worker-id", "node-1", "--queues", queue]
        started.append(Program(argv, logs, env | {"PATH": os.environ["PATH"]}))
        return started[-1].ready()

    yield start
    for program in started:
        program.kill()


@pytest.fixture
def worker(start: Start, ctl: Ctl, queue: str) -> Program:
    return start(ctl.address, queue)


@pytest.fixture
def serve(database: str, tmp_path: Path) -> Iterator[Serve]:
    """Start servers of a database of their own, all on one port: a test ends one, or stops it."""
    logs, port = tmp_path / "server-logs", str(free_port())
    logs.mkdir()
    started: list[ServerProgram] = []

    def serve(**settings: object) -> ServerProgram:
        started.append(ServerProgram(database, logs, "--grpc-port", port, **settings))
        return started[-1].ready()

    yield serve
    for server in started:
        server.kill()


def starts(worker: Program, job_id: str) -> None:
    """Wait until the worker says that it runs a job."""

    def look() -> bool:
        said = [(line["message"], line.get("job_id")) for line in worker.lines()]
        return ("started", job_id) in said

    eventually_sync(look, within_s=40, what=f"the start of {job_id}")


def says(worker: Program, message: str) -> None:
    """Wait until a worker that goes on says this."""

    def look() -> bool:
        assert worker.process.poll() is None, worker.text()
        return worker.says(message)

    eventually_sync(look, within_s=60, what=message)


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


def test_it_repeats_a_call_that_a_server_cut_off_at_its_end(start: Start) -> None:
    minute = Duration(seconds=60)
    session = pb.RegisterResponse(
        session="1", lease_duration=minute, renew_interval=minute, heartbeat_interval=minute
    )
    service = FakeService()
    service.answer("Register", Failure(StatusCode.CANCELLED, "cut off"), session)
    service.start()
    try:
        start(service.address, "default")
    finally:
        service.stop()
    assert len(service.asked["Register"]) == 2


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


def test_sigterm_while_the_server_is_away_lets_it_finish_what_runs(
    start: Start, serve: Serve
) -> None:
    server = serve(lease_duration_s=120)
    ctl = Ctl(server.address)
    worker = start(server.address, "default")
    job_id = ctl.submit("--type", "wait", payload="10")
    starts(worker, job_id)
    server.kill()
    worker.send(signal.SIGTERM)
    says(worker, "cannot hand back")
    serve(lease_duration_s=120)
    assert worker.ended(90) == 0, worker.text()
    assert ctl.becomes(job_id, "DONE")["attempt"] == 1


def test_it_gives_up_a_job_in_time_while_its_server_stands_still_and_ends_without_one(
    start: Start, serve: Serve
) -> None:
    times = {"lease_renew_interval_s": 1, "worker_heartbeat_interval_s": 1}
    server = serve(lease_duration_s=5, **times)
    worker = start(server.address, "default")
    job_id = Ctl(server.address).submit("--type", "wait", payload="600")
    starts(worker, job_id)
    with stopped(server.process.pid):
        says(worker, "lost")
        said = [line["message"] for line in worker.lines()]
        assert "cannot renew" not in said[: said.index("lost")], "a renewal was still under way"
    server.kill()
    worker.send(signal.SIGTERM)
    assert worker.ended(90) == 0, worker.text()
    assert worker.says("cannot deregister")
