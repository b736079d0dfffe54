"""Subprocess commands and shell jobs."""

import asyncio
import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Fate
from jobqueue.domain.state import Reason
from jobqueue.worker.programs import _error_text
from jobqueue.worker.registry import Shell
from jobqueue.worker.runners import shell_command
from tests.support.family import told_by
from tests.support.waiting import eventually_sync
from tests.unit.worker.conftest import Run
from tests.unit.worker.test_handlers import dead, pid_in

LIMITS = Limits()


def shell(command: str) -> bytes:
    return json.dumps({"command": command}).encode()


async def test_a_command_gets_the_payload_and_its_output_is_the_result(run: Run) -> None:
    payload = os.urandom(1024 * 1024)
    assert (await run("cat", payload)).result == payload


async def test_a_command_knows_its_job_and_not_the_workers_secrets(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JQ_DB_PASSWORD", "secret")
    settlement = await run("shell", shell("env"), queue="mail")
    lines = (settlement.result or b"").decode().splitlines()
    ours = {line.partition("=")[0] for line in lines if line.startswith("JQ_")}
    assert ours == {"JQ_JOB_ID", "JQ_JOB_ATTEMPT", "JQ_JOB_TYPE", "JQ_JOB_QUEUE"}
    assert {"JQ_JOB_QUEUE=mail", "JQ_JOB_ATTEMPT=1", "JQ_JOB_TYPE=shell"} <= set(lines)


async def test_a_failed_command_keeps_its_exit_code_and_the_end_of_its_stderr(run: Run) -> None:
    settlement = await run("fails")
    assert settlement.reason is Reason.HANDLER_FAILED
    assert settlement.detail == "exited with code 3: bad \ufffd luck"
    assert settlement.result is None


async def test_output_that_is_no_text_is_kept_byte_for_byte_and_marked_in_an_error(
    run: Run,
) -> None:
    prints = r"printf '\377\376\200'; printf '\377\376\200' >&2"
    assert (await run("shell", shell(prints))).result == b"\xff\xfe\x80"
    failed = await run("shell", shell(f"{prints}; exit 3"))
    assert failed.detail == "exited with code 3: \ufffd\ufffd\ufffd"


async def test_a_command_killed_by_a_signal_says_which(run: Run) -> None:
    assert (await run("shell", shell("kill -SEGV $$"))).detail == "died with signal SIGSEGV"


async def test_a_command_has_every_variable_of_the_worker_also_such_as_shells_drop(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN_NAME", "plain")
    plain = (await run("environment")).result or b""
    monkeypatch.setenv("dotted.name", "dotted")
    both = (await run("environment")).result or b""
    assert b"PLAIN_NAME=plain" in plain
    assert b"PLAIN_NAME=plain" in both
    assert b"dotted.name=dotted" in both


def test_a_command_whose_worker_is_killed_before_the_guard_knows_it_never_begins(
    tmp_path: Path,
) -> None:
    begun, pid = tmp_path / "begun", tmp_path / "pid"
    argv = [sys.executable, "-m", "tests.support.dies_in_the_gap", str(begun), str(pid)]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    eventually_sync(lambda: dead(pid_in(pid)), what="the end of the orphan")
    assert not begun.exists()


async def test_a_missing_program_is_a_clear_failure(run: Run) -> None:
    settlement = await run("missing")
    assert settlement.reason is Reason.HANDLER_FAILED
    assert settlement.detail == "cannot start '/no/such/program': No such file or directory"


async def test_a_command_that_ignores_its_input_succeeds(run: Run) -> None:
    settlement = await run("ignores-input", b"x" * 1024 * 1024)
    assert (settlement.fate, settlement.result) == (Fate.DONE, b"")


@pytest.mark.parametrize("kind", ["flood", "flood-of-one-line"])
async def test_a_flood_on_both_outputs_costs_no_memory(run: Run, kind: str) -> None:
    own = psutil.Process()
    before = most = own.memory_info().rss
    flowing = asyncio.ensure_future(run(kind))
    while not flowing.done():
        await asyncio.wait([flowing], timeout=0.01)
        most = max(most, own.memory_info().rss)
    settlement = await flowing
    assert (settlement.fate, settlement.result_truncated) == (Fate.DONE, True)
    assert len(settlement.result or b"") == LIMITS.result_bytes
    assert most - before < 50 * 1024 * 1024


async def test_a_timeout_ends_the_whole_group_of_a_stubborn_command(
    timed_out: Run, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    command = f"trap '' TERM; (trap '' TERM; exec sleep 60) & echo $! > {path}; wait; sleep 60"
    settlement = await timed_out("shell", path, shell(command))
    assert settlement.reason is Reason.TIMED_OUT
    assert dead(pid_in(path))


@pytest.mark.parametrize("watching", ["add_reader", "add_writer"])
async def test_a_command_whose_pipes_cannot_be_watched_does_not_go_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, watching: str
) -> None:
    started: list[psutil.Process] = []

    def refuse(fd: int, *_: object) -> None:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            started.extend(shells())
            raise OSError(errno.ENOSPC, "No space left on device")
        watch(fd, *_)

    loop = asyncio.get_running_loop()
    watch = getattr(loop, watching)
    monkeypatch.setattr(loop, watching, refuse)
    # More than a pipe holds: what is less is written at once.
    settlement = await run("reads-nothing", b"x" * 1_000_000)
    assert settlement.reason is Reason.HANDLER_FAILED
    assert (settlement.detail or "").startswith("OSError: [Errno 28] No space left on device")
    assert len(started) == 1
    assert shells() == []


def shells() -> list[psutil.Process]:
    """Return the shells that run, or are about to run, a job in this process."""
    commands = told_by(psutil.Process().children(), psutil.Process.cmdline)
    return [each for each, command in commands if "600" in command]


async def test_what_a_command_leaves_behind_is_killed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    settlement = await run("shell", shell(f"sleep 60 & echo $! > {path}; echo done"))
    assert settlement.result == b"done\n"
    assert dead(pid_in(path))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"echo hi",
        b"[]",
        b"{}",
        b'{"command": 1}',
        b'{"command": " "}',
        b'{"command": "a\\u0000b"}',
        b'{"command": "a\\ud800b"}',
        b"\xff",
        b"[" * 100_000,
    ],
)
async def test_a_bad_shell_payload_is_refused_for_good(run: Run, payload: bytes) -> None:
    settlement = await run("shell", payload)
    assert (settlement.fate, settlement.dead_reason) == (Fate.DEAD, Reason.REFUSED)
    assert settlement.detail


def test_a_shell_command_is_taken_as_it_is() -> None:
    assert shell_command(shell("echo 'grüße' && false")) == "echo 'grüße' && false"


def test_a_long_stderr_keeps_its_end_and_says_that_it_was_cut() -> None:
    text = _error_text("exited with code 1", b"x" * 20_000 + b"the end", 1_000)
    assert len(text.encode()) <= 1_000
    assert text.startswith("exited with code 1: [truncated] … x")
    assert text.endswith("the end")


def test_a_shell_job_is_bounded_even_when_it_does_not_say_so() -> None:

    assert Shell().timeout_s == 300.0
