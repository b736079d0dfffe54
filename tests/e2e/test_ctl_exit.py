"""What `jq-ctl` ends with, and what it says then (R-8.3)."""

import signal
import socket
import subprocess
import uuid

import pytest

from tests.e2e.conftest import SERVER, Ctl, System
from tests.support.programs import ServerProgram, ctl_command, environment, run_ctl
from tests.support.redis import free_port

NOBODY = str(uuid.uuid4())


def one_line(err: str) -> str:
    """Return the only line of an error."""
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    "command",
    [
        *(("status",), ("logs",), ("cancel",), ("cancel", "--running"), ("retry",), ("delete",)),
        ("watch",),
    ],
)
def test_an_unknown_id_ends_with_3(ctl: Ctl, command: tuple[str, ...]) -> None:
    ended = ctl("job", *command, NOBODY)
    assert (ended.code, ended.out) == (3, "")
    assert NOBODY in one_line(ended.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("job", "status", "not-an-id"),
        ("job", "submit", "--queue", "default", "--payload", "x", "--priority", "11"),
        ("job", "submit", "--queue", "default", "--payload", "x", "--ttl", "soon"),
        ("job", "submit", "--queue", "default", "--payload", "x", "--not-before", "2030-01-01"),
        ("job", "submit", "--queue", "default", "--payload", "@/no/such/file"),
        ("job", "submit", "--queue", "no spaces", "--payload", "x"),
        ("job", "submit", "--payload", "x"),
        ("job", "list", "--page-token", "nonsense"),
        ("job", "list", "--limit", "0"),
        ("job", "frobnicate"),
        ("queue", "stats", "--no-such-flag"),
        ("worker", "drain"),
        ("status", "--output", "xml"),
        ("status", "--timeout", "0"),
        ("job",),
        (),
    ],
)
def test_what_cannot_be_meant_ends_with_2(ctl: Ctl, arguments: tuple[str, ...]) -> None:
    ended = ctl(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err


def test_a_payload_that_is_too_large_ends_with_2(ctl: Ctl) -> None:
    large = b"x" * (1024 * 1024 + 1)
    ended = ctl("job", "submit", "--queue", "default", "--payload", "-", stdin=large)
    assert (ended.code, ended.out) == (2, "")
    assert "payload" in one_line(ended.err)


def test_a_server_that_is_stopped_ends_with_5(system: System) -> None:
    server = ServerProgram(system.dsn, system.folder, **SERVER).ready()
    address = server.address
    assert run_ctl(address, "queue", "list").returncode == 0
    server.send(signal.SIGTERM)
    assert server.ended() == 0, server.text()
    ended = run_ctl(address, "queue", "list")
    assert (ended.returncode, ended.stdout) == (5, b"")
    assert address in one_line(ended.stderr.decode())


def test_a_server_that_does_not_answer_ends_with_5_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ended = run_ctl(address, "queue", "list", "--timeout", "0.5", within_s=20.0)
    assert (ended.returncode, ended.stdout) == (5, b"")
    one_line(ended.stderr.decode())


def test_a_watch_survives_a_restart_of_the_server(ctl: Ctl, system: System, queue: str) -> None:
    flags = ("--grpc-port", str(free_port()))
    first = ServerProgram(system.dsn, system.folder, *flags, **SERVER).ready()
    job_id = ctl.submit(queue=queue)
    with subprocess.Popen(
        ctl_command("job", "watch", job_id),
        env=environment(server_addr=first.address),
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        try:
            assert watching.stdout is not None
            assert "PENDING" in watching.stdout.readline()
            first.kill()
            second = ServerProgram(system.dsn, system.folder, *flags, **SERVER).ready()
            ctl.ok("job", "cancel", job_id)
            rest, _ = watching.communicate(timeout=60)
            second.kill()
        finally:
            watching.kill()
    assert watching.returncode == 8
    assert "DEAD_LETTERED" in rest


def test_an_interrupted_wait_ends_with_130(ctl: Ctl, queue: str) -> None:
    with subprocess.Popen(
        ctl_command("job", "submit", "--queue", queue, "--payload", "", "--wait"),
        env=environment(server_addr=ctl.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        try:
            assert waiting.stdout is not None
            assert waiting.stdout.readline()
            waiting.send_signal(signal.SIGINT)
            _, told = waiting.communicate(timeout=60)
        finally:
            waiting.kill()
    assert (waiting.returncode, told) == (130, "")
