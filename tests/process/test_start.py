"""What ends a program before it has begun: one line, the right code, and nothing left behind."""

import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tests.support.programs import FREE_PORTS, ServerProgram, WorkerProgram, environment

KILLED_AT_THE_START = """
import os, signal, sys
from jobqueue.cli import {program}
inner = {program}._start_up
def start_up(flags):
    os.kill(os.getpid(), signal.SIGTERM)
    return inner(flags)
{program}._start_up = start_up
sys.argv[1:] = {arguments}
{program}.main()
"""


@pytest.mark.parametrize(
    ("program", "arguments"),
    [("server", ["--embedded"]), ("worker", ["--embedded", "--allow-shell"])],
)
def test_a_signal_before_there_is_a_loop_ends_a_program_with_0(
    program: str, arguments: list[str], tmp_path: Path
) -> None:
    code = KILLED_AT_THE_START.format(program=program, arguments=arguments)
    env = environment(**FREE_PORTS) | {"XDG_DATA_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_ends_the_server_before_its_database_starts(tmp_path: Path) -> None:
    data = tmp_path / "pg"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = ("--embedded", "--data-dir", str(data))
        port = str(taken.getsockname()[1])
        server = ServerProgram("", tmp_path, *flags, "--grpc-port", port)
        assert server.ended(60) == 1
    (told,) = [line for line in server.text().splitlines() if not line.startswith("{")]
    assert told.startswith("jq-server: cannot listen on port")
    assert not data.exists()


async def test_a_worker_that_the_database_refuses_ends_with_1_and_says_why(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    parts = urlsplit(database)
    unknown = urlunsplit(parts._replace(path="/no_such_database"))
    worker = WorkerProgram(unknown, tmp_path)
    assert worker.ended() == 1
    (told,) = [line for line in worker.text().splitlines() if not line.startswith("{")]
    assert told.startswith("jq-worker: the database refused")
    assert "no_such_database" in told
