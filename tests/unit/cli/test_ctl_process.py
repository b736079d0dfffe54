"""jq-ctl as a program: pipes, signals, start-up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, FakeService, job

CTL = str(Path(sys.executable).parent / "jq-ctl")


@pytest.fixture
def environment(service: FakeService) -> dict[str, str]:
    return {**os.environ, "JQ_SERVER_ADDR": service.address}


def test_a_closed_pipe_ends_silently(service: FakeService, environment: dict[str, str]) -> None:
    page = jobs.ListJobsResponse(jobs=[job()] * 1_000, next_page_token="more")
    service.answer("ListJobs", page)
    for output in ("table", "json", "yaml"):
        script = f"{CTL} job list --all --output {output} | head -1; echo ${{PIPESTATUS[0]}}"
        ended = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert ended.stderr == ""
        assert ended.stdout.splitlines()[-1] == "0"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_gives_nothing_and_takes_everything(
    closed: str, service: FakeService, environment: dict[str, str]
) -> None:
    service.answer("ListJobs", jobs.ListJobsResponse(jobs=[job()]))
    script = f"{CTL} job list {closed}; {CTL} job status nope {closed}; echo $? >&3"
    ended = subprocess.run(
        ["bash", "-c", f"exec 3>&1; {script}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "2"
    assert "unexpected" not in ended.stderr


def test_a_full_disk_is_told(service: FakeService, environment: dict[str, str]) -> None:
    service.answer("ListJobs", jobs.ListJobsResponse(jobs=[job()]))
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [CTL, "job", "list"],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "error: No space left on device\n")


def test_an_interrupt_ends_a_wait_with_130(
    service: FakeService, environment: dict[str, str]
) -> None:
    service.answer("GetJob", jobs.GetJobResponse(job=job("RUNNING")))
    with subprocess.Popen(
        [CTL, "job", "watch", JOB_ID],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        assert "RUNNING" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, told = watching.communicate(timeout=60)
    assert (watching.returncode, told) == (130, "")


def test_an_interrupt_ends_a_program_whose_clean_up_hangs() -> None:
    code = """
import os, signal, threading
from jobqueue.cli.ctl import app
def hang(arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    finally:
        threading.Event().wait()
app.run = hang
app.main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_what_an_interrupt_leaves_half_made_tells_a_user_nothing() -> None:
    code = """
import os, signal
from jobqueue.cli.ctl import app
class HalfMade:
    def __init__(self):
        os.kill(os.getpid(), signal.SIGINT)
        self.whole = True
    def __del__(self):
        assert self.whole
app.run = lambda arguments: HalfMade()
try:
    app.main()
except KeyboardInterrupt as interrupted:
    interrupted.__traceback__ = None
    os._exit(130)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_a_stopped_server_is_told_in_one_line(
    service: FakeService, environment: dict[str, str]
) -> None:
    service.stop()
    ended = subprocess.run(
        [CTL, "queue", "list"], env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (5, "")
    assert ended.stderr.startswith(f"error: cannot reach {service.address}: ")
    assert ended.stderr.count("\n") == 1


def test_output_that_the_terminal_cannot_spell_is_escaped(
    service: FakeService, environment: dict[str, str]
) -> None:
    service.answer("GetJob", jobs.GetJobResponse(job=job(payload="grüße ✓".encode())))
    for output in ("table", "json", "yaml"):
        ended = subprocess.run(
            [CTL, "job", "status", JOB_ID, "--output", output],
            env={**environment, "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert b"\\u2713" in ended.stdout.lower()


def test_help_loads_nothing_slow(environment: dict[str, str]) -> None:
    script = (
        "import sys; from jobqueue.cli.ctl.app import run; run(['job', 'submit', '--help']);"
        "slow = {'grpc', 'google.protobuf', 'rich', 'yaml', 'asyncio'};"
        "sys.exit(', '.join(slow & {*sys.modules}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert loaded.stderr.strip() == ""
