"""`jq-worker` on the command line, up to where it would start to work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jobqueue.cli.worker import cli

FLAGS = [
    "--config", "--server-addr", "--tls-ca", "--tls-cert", "--tls-key", "--api-key", "--worker-id",
    "--concurrency", "--queues", "--handlers",
    "--processes", "--prefetch", "--allow-shell", "--embedded", "--data-dir", "--health-port",
    "--metrics-port", "--log-level",
    "--version", "--help",
]  # fmt: skip
DATABASE = {"JQ_DB_URL": "postgresql://localhost:1/none"}


def run(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, args, env={"JQ_SERVER_ADDR": None, **(env or {})})


def test_help_describes_every_flag() -> None:
    text = run("--help").stdout
    for flag in FLAGS:
        assert flag in text


def test_version_names_release_and_commit() -> None:
    assert run("--version").stdout.startswith("0.1.0 (")


def test_a_worker_needs_a_way_to_its_jobs() -> None:
    result = run("--allow-shell")
    assert result.exit_code == 2
    for way in ("JQ_DB_URL", "--embedded", "--server-addr"):
        assert way in result.stderr


@pytest.mark.parametrize("env", [{}, {"JQ_SERVER_ADDR": "localhost:50051"}])
def test_a_server_address_is_a_way_by_flag_or_variable(env: dict[str, str]) -> None:
    flags = [] if env else ["--server-addr", "localhost:50051"]
    result = run(*flags, "--queues", "a b", "--allow-shell", env=env)
    assert (result.exit_code, "'a b'" in result.stderr) == (2, True), result.stderr


def test_a_bad_server_address_or_key_exits_2() -> None:
    for flags in (["--server-addr", " "], ["--server-addr", "h:1", "--api-key", "a b"]):
        result = run(*flags, "--allow-shell")
        assert (result.exit_code, "must" in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--queues", "a b"], "'a b'"),
        (["--queues", ""], "--queues: '' must not be empty"),
        (["--queues", "a,,b"], "--queues: '' must not be empty"),
        (["--worker-id", "a/b"], "--worker-id"),
        (["--concurrency", "0"], "--concurrency"),
        (["--processes", "0"], "worker.processes"),
        (["--prefetch", "-1"], "worker.prefetch"),
        (["--data-dir", "/tmp/x"], "--embedded"),
        (["--handlers", "no_such_module"], "no_such_module"),
    ],
)
def test_a_bad_flag_is_named_and_exits_2(args: list[str], words: str) -> None:
    result = run(*args, "--allow-shell", env=DATABASE)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


def test_a_worker_with_nothing_to_run_exits_2() -> None:
    # A process of its own: handlers that other tests declared are in this one.
    argv = [sys.executable, "-m", "jobqueue.cli.worker"]
    env = {**os.environ, **DATABASE}
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert "nothing to run" in ended.stderr


def test_an_embedded_database_that_does_not_run_exits_1(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "jobqueue.cli.worker", "--embedded", "--allow-shell"]
    argv += ["--data-dir", str(tmp_path), "--health-port", "0", "--metrics-port", "0"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "no embedded database is running" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("health", "metrics", "words"),
    [("65535", "0", "health.port: leaves no port"), ("0", "65535", "metrics.port: leaves no port"),
     ("9000", "9001", "metrics.port: is 1 beside health.port")],
)  # fmt: skip
def test_processes_need_ports_of_their_own(health: str, metrics: str, words: str) -> None:
    ports = ("--health-port", health, "--metrics-port", metrics)
    result = run(*ports, "--processes", "2", "--allow-shell", env=DATABASE)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


def test_a_pod_that_does_not_know_itself_is_refused_with_all_that_it_lacks(tmp_path: Path) -> None:
    env = {
        **DATABASE,
        "JQ_WORKER_POD_DELETION_COST": "true",
        "JQ_WORKER_KUBERNETES_CREDENTIALS_DIR": str(tmp_path),
        "POD_NAME": "",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    for flags in ([], ["--processes", "2"]):
        result = run("--allow-shell", *flags, env=env)
        assert result.exit_code == 2
        for words in ("POD_NAME: is needed", "POD_NAMESPACE: is needed", "token cannot be read"):
            assert words in result.stderr
