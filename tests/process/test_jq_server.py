"""The program `jq-server`, run as its users run it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import asyncpg
import grpc
import pytest

from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import admin_service_pb2_grpc as admin_grpc

JQ_SERVER = [sys.executable, "-c", "from jobqueue.cli.server import main; main()"]
NOWHERE = "postgresql://nobody:hunter2@127.0.0.1:1/none"


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*JQ_SERVER, *args], capture_output=True, text=True, timeout=60, env=_env(env), check=False
    )


def _env(env: dict[str, str]) -> dict[str, str]:
    ours = {
        key: value for key, value in os.environ.items() if not key.startswith(("JQ_", "COVERAGE_"))
    }
    return ours | {"JQ_HEALTH_PORT": "0", "JQ_METRICS_PORT": "0"} | env


@contextmanager
def running(*args: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    command = [*JQ_SERVER, "--grpc-port", "0", *args]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_env(env)
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def ready_port(out: IO[str] | None) -> int:
    """Return the port from the log; every line up to it must be one JSON object."""
    assert out is not None
    for line in out:
        entry = json.loads(line)
        if entry["message"] == "ready":
            assert entry["service"] == "jq-server"
            return int(entry["grpc_port"])
    raise AssertionError("the server ended before it was ready")


def version_of(port: int) -> str:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = admin_grpc.AdminServiceStub(channel)
        return str(stub.GetVersion(admin_pb.GetVersionRequest(), timeout=60).version)


def test_help_describes_every_flag_without_loading_the_server() -> None:
    probe = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "from jobqueue.cli.server import main\n"
        "try: main()\n"
        "finally: print('loaded:', sorted({'grpc', 'asyncpg', 'alembic'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    for flag in (
        "config",
        "grpc-port",
        "health-port",
        "metrics-port",
        "log-level",
        "dry-run",
        "embedded",
        "data-dir",
        "version",
    ):
        assert f"--{flag} " in shown
    assert "loaded: []" in shown


def test_the_version_has_a_number_and_a_commit() -> None:
    number, _, commit = run("--version").stdout.strip().partition(" ")
    assert number.count(".") == 2
    assert commit.startswith("(")


def test_all_bad_settings_are_named_and_end_the_program_with_2() -> None:
    ended = run(JQ_DB_POOL_SIZE="x", JQ_LEASE_DURATION_S="-1")
    assert ended.returncode == 2
    assert "db.pool_size: " in ended.stderr
    assert "lease.duration_s: " in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize("args", [("--data-dir", "x"), ("--no-such-flag",), ("no-such-command",)])
def test_a_wrong_command_line_ends_with_2(args: tuple[str, ...]) -> None:
    assert run(*args).returncode == 2


def test_a_dry_run_shows_settings_without_secrets_and_the_database(database: str) -> None:
    ended = run("--dry-run", JQ_DB_URL=database, JQ_REDIS_PASSWORD="hunter2")
    assert ended.returncode == 0
    assert "lease.duration_s = 30" in ended.stdout
    assert "hunter2" not in ended.stdout + ended.stderr
    assert "redis: off" in ended.stdout
    assert "postgresql: PostgreSQL" in ended.stdout


def test_a_dry_run_tries_redis_too_and_tells_of_each(database: str) -> None:
    ended = run("--dry-run", JQ_DB_URL=database, JQ_REDIS_ADDR="127.0.0.1:1")
    assert ended.returncode == 1
    assert "postgresql: PostgreSQL" in ended.stdout
    assert "jq-server: redis: " in ended.stderr
    assert ended.stderr.count("127.0.0.1:1") == 1, "the cause is told once"


def test_a_dry_run_without_a_database_ends_with_1_and_hides_the_password() -> None:
    ended = run("--dry-run", JQ_DB_URL=NOWHERE)
    assert ended.returncode == 1
    assert "the database cannot be reached" in ended.stderr
    assert "hunter2" not in ended.stdout + ended.stderr


def test_a_server_logs_json_serves_and_ends_with_0_on_sigterm(database: str) -> None:
    with running(JQ_DB_URL=database) as server:
        assert version_of(ready_port(server.stdout))
        server.send_signal(signal.SIGTERM)
        rest, errors = server.communicate(timeout=60)
        assert server.returncode == 0, errors
    messages = [json.loads(line)["message"] for line in rest.splitlines()]
    assert messages[-2:] == ["shutting down", "stopped"]


def test_a_signal_while_it_waits_for_the_database_ends_the_server_with_0() -> None:
    with running(JQ_DB_URL=NOWHERE) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if json.loads(line)["message"] == "waiting for PostgreSQL":
                break
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
        assert server.returncode == 0


def test_migrate_brings_the_schema_down_and_up(database: str) -> None:
    for revision in ("base", "head", "head"):
        ended = run("migrate", "--revision", revision, JQ_DB_URL=database)
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("revision", ["nope", "+1", ""])
def test_migrate_refuses_a_revision_it_does_not_know(revision: str) -> None:
    ended = run("migrate", "--revision", revision, JQ_DB_URL=NOWHERE)
    assert ended.returncode == 2
    assert f"--revision: {revision!r} is not known to this version" in ended.stderr


async def test_a_migration_that_the_database_refuses_ends_with_one_line_and_1(
    database: str, conn: asyncpg.Connection
) -> None:
    assert run("migrate", "--revision", "base", JQ_DB_URL=database).returncode == 0
    await conn.execute("CREATE TABLE jobqueue.queues ()")
    ended = run("migrate", JQ_DB_URL=database)
    assert ended.returncode == 1
    assert ended.stderr == (
        'jq-server: the database refused the migration: relation "queues" already exists\n'
    )


@pytest.mark.slow
def test_an_embedded_server_keeps_its_data_and_refuses_a_second_one(tmp_path: Path) -> None:
    embedded = ("--embedded", "--data-dir", str(tmp_path / "pg"))
    with running(*embedded) as server:
        port = ready_port(server.stdout)
        second = run("--grpc-port", "0", *embedded)
        assert second.returncode == 1
        assert second.stderr.endswith(f"already run by process {server.pid}\n")
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = admin_grpc.AdminServiceStub(channel)
            stub.CreateQueue(admin_pb.CreateQueueRequest(name="kept"), timeout=60)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
        assert server.returncode == 0
    with running(*embedded) as server:
        port = ready_port(server.stdout)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = admin_grpc.AdminServiceStub(channel)
            assert stub.GetQueue(admin_pb.GetQueueRequest(name="kept"), timeout=60).queue.name
