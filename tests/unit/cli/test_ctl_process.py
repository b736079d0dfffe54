"""jq-ctl as a program: pipes, signals, start-up."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import grpc
import pytest

from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, Failure, FakeService, job, nobody
from tests.support.shells import in_bash

CTL = str(Path(sys.executable).parent / "jq-ctl")


@pytest.fixture
def environment(service: FakeService) -> dict[str, str]:
    return {**os.environ, "JQ_SERVER_ADDR": service.address}


def test_a_closed_pipe_ends_silently(service: FakeService, environment: dict[str, str]) -> None:
    page = jobs.ListJobsResponse(jobs=[job()] * 1_000, next_page_token="more")
    service.answer("ListJobs", page)
    for output in ("table", "json", "yaml"):
        script = f"{CTL} job list --all --output {output} | head -1; echo ${{PIPESTATUS[0]}}"
        ended = in_bash(script, environment)
        assert ended.stderr == ""
        assert ended.stdout.splitlines()[-1] == "0"


def test_a_long_list_is_whole_in_a_pipe(service: FakeService, environment: dict[str, str]) -> None:
    first = jobs.ListJobsResponse(jobs=[job()] * 1_000, next_page_token="more")
    service.answer("ListJobs", first, jobs.ListJobsResponse(jobs=[job()] * 2))
    ended = subprocess.run(
        [CTL, "job", "list", "--all"], env=environment, capture_output=True, text=True, check=True
    )
    assert [line[:3] for line in ended.stdout.splitlines()] == ["JOB", *[JOB_ID[:3]] * 1_002]


def test_a_closed_pipe_stops_no_submission(
    service: FakeService, environment: dict[str, str], tmp_path: Path
) -> None:
    service.answer("SubmitJobs", *(jobs.SubmitJobsResponse(job_ids=[JOB_ID] * 10_000),) * 3)
    file = tmp_path / "jobs.jsonl"
    file.write_text('{"queue": "q"}\n' * 30_000)
    submit = f"{CTL} job submit --from-file {file}"
    ended = in_bash(f"{submit} | head -1; echo ${{PIPESTATUS[0]}}", environment)
    assert (ended.stdout.splitlines()[-1], ended.stderr) == ("0", "")
    assert len(service.asked["SubmitJobs"]) == 3


@contextmanager
def closed_pipe() -> Iterator[int]:
    """Give a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def into(stdout: "int | IO[str]", env: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run jq-ctl with this stdout; return its code and what it said on stderr."""
    argv = [CTL, "job", "submit", *arguments]
    ended = subprocess.run(
        argv, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_closed_pipe_hides_no_failure_of_a_submission(
    output: str, service: FakeService, environment: dict[str, str], tmp_path: Path
) -> None:
    whole = jobs.SubmitJobsResponse(job_ids=[JOB_ID] * 10_000)
    service.answer("SubmitJobs", whole, Failure(grpc.StatusCode.NOT_FOUND, "no such queue"))
    file = tmp_path / "jobs.jsonl"
    file.write_text('{"queue": "q"}\n' * 20_000)
    with closed_pipe() as nobody:
        ended = into(nobody, environment, "--from-file", str(file), "--output", output)
    assert ended == (7, "error: 10000 jobs are stored, the rest is not: no such queue\n")


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_closed_pipe_ends_no_wait(
    output: str, service: FakeService, environment: dict[str, str]
) -> None:
    service.answer("SubmitJob", jobs.SubmitJobResponse(job_id=JOB_ID))
    service.answer("GetJob", jobs.GetJobResponse(job=job("DEAD_LETTERED")))
    one = ("--queue", "q", "--payload", "", "--wait", "--output", output)
    with closed_pipe() as nobody:
        code, told = into(nobody, environment, *one)
    assert (code, told.splitlines()) == (
        8,
        [f"error: job {JOB_ID} ended DEAD_LETTERED (SUBMITTED)"],
    )


@pytest.mark.parametrize(
    ("output", "rest"),
    [("table", "the rest is not"), ("json", "but their ids cannot be written")],
)
def test_a_disk_that_is_full_of_ids_leaves_the_work_partly_done(
    output: str, rest: str, service: FakeService, environment: dict[str, str], tmp_path: Path
) -> None:
    service.answer("SubmitJobs", jobs.SubmitJobsResponse(job_ids=[JOB_ID] * 10_000))
    file = tmp_path / "jobs.jsonl"
    file.write_text('{"queue": "q"}\n' * 10_000)
    with Path("/dev/full").open("w") as full:
        ended = into(full, environment, "--from-file", str(file), "--output", output)
    told = f"error: 10000 jobs are stored, {rest}: No space left on device\n"
    assert ended == (7, told)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_list_that_fails_at_once_leaves_stdout_empty(
    output: str, environment: dict[str, str]
) -> None:
    with nobody() as address:
        ended = subprocess.run(
            [CTL, "job", "list", "--output", output],
            env={**environment, "JQ_SERVER_ADDR": address},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (5, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_gives_nothing_and_takes_everything(
    closed: str, service: FakeService, environment: dict[str, str]
) -> None:
    service.answer("ListJobs", jobs.ListJobsResponse(jobs=[job()]))
    script = f"{CTL} job list {closed}; {CTL} job status nope {closed}; echo $? >&3"
    ended = in_bash(f"exec 3>&1; {script}", environment)
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


@contextmanager
def taken_as_usual(number: signal.Signals) -> Iterator[None]:
    """Start programs that do not ignore a signal, though whoever started the tests may have."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def watches(
    service: FakeService, environment: dict[str, str], *through: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run a watch, ``through`` another program perhaps, that has shown a job that runs on."""
    service.answer("GetJob", jobs.GetJobResponse(job=job("RUNNING")))
    with subprocess.Popen(
        [*through, CTL, "job", "watch", JOB_ID],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        assert "RUNNING" in watching.stdout.readline()
        yield watching


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_wait_with_its_code(
    number: signal.Signals, service: FakeService, environment: dict[str, str]
) -> None:
    with taken_as_usual(number), watches(service, environment) as watching:
        watching.send_signal(number)
        _, told = watching.communicate(timeout=60)
    assert (watching.returncode, told) == (128 + number, "")


def test_a_signal_that_is_ignored_from_the_start_stays_ignored(
    service: FakeService, environment: dict[str, str]
) -> None:
    with watches(service, environment, "nohup") as watching:
        watching.send_signal(signal.SIGHUP)
        watching.send_signal(signal.SIGTERM)
        watching.communicate(timeout=60)
    assert watching.returncode == 128 + signal.SIGTERM


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


def test_a_stopped_server_is_told_in_one_line(environment: dict[str, str]) -> None:
    with nobody() as address:
        ended = subprocess.run(
            [CTL, "queue", "list"],
            env={**environment, "JQ_SERVER_ADDR": address},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (5, "")
    assert ended.stderr.startswith(f"error: cannot reach {address}: ")
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
