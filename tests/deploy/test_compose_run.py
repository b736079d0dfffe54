"""What the containers of docker-compose.yml run, as plain processes (R-10.1).

Commands and variables are those of the file; the names of its services lead to the tests' own
PostgreSQL, Redis and Kafka, and ports are free ones.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from jobqueue.client import Client, JobFilter, JobStatus
from tests.deploy.support_compose import ROOT, environment_of, services
from tests.support.kafka import running_broker
from tests.support.kafka_way import Way
from tests.support.programs import Program, environment
from tests.support.redis import RedisServer, free_port
from tests.support.waiting import eventually_sync

BIN = Path(sys.executable).parent
TOPIC = "jobqueue.events"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the services of the file are in truth."""

    database: str
    redis: str
    kafka: str
    grpc_port: int

    def variables(self, service: str, **ports: int) -> dict[str, str]:
        """Return the environment of a service, on this stage."""
        own = environment_of(service)
        truth = {
            **_database(self.database),
            "JQ_REDIS_ADDR": self.redis,
            "JQ_KAFKA_BROKERS": self.kafka,
            "JQ_SERVER_ADDR": f"127.0.0.1:{self.grpc_port}",
        }
        moved = {name: value for name, value in truth.items() if name in own}
        if "JQ_DB_HOST" in own:
            moved |= _database(self.database)
        return environment() | own | moved | {k.upper(): str(v) for k, v in ports.items()}


def _database(dsn: str) -> dict[str, str]:
    """Return the settings of a DSN whose host may be the folder of a socket."""
    parts = urlsplit(dsn)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    found = {
        "JQ_DB_HOST": parts.hostname or query.get("host"),
        "JQ_DB_PORT": str(parts.port or query.get("port", 5432)),
        "JQ_DB_USER": parts.username,
        "JQ_DB_NAME": parts.path.removeprefix("/"),
    }
    if parts.password:
        found["JQ_DB_PASSWORD"] = parts.password
    return {name: value for name, value in found.items() if value}


@pytest.fixture
def stage(database: str, tmp_path: Path) -> Iterator[Stage]:
    (tmp_path / "redis").mkdir()
    redis = RedisServer(tmp_path / "redis")
    with running_broker() as broker:
        way = Way(broker)
        way.open()
        broker.create_topic(TOPIC)
        yield Stage(database, redis.addr, broker.address, free_port())
        way.close()
    redis.kill()


def start(service: str, folder: Path, env: Mapping[str, str]) -> Program:
    """Start what the service starts: its image's program and its command."""
    definition = services()[service]
    program = BIN / f"jq-{definition['build']['target']}"
    return Program([str(program), *definition.get("command", [])], folder, dict(env))


def healthy(service: str, env: Mapping[str, str]) -> bool:
    """Run the health check of a service as the container's runtime does."""
    _, python, *arguments = services()[service]["healthcheck"]["test"]
    assert python == "/app/.venv/bin/python"
    checked = subprocess.run(
        [sys.executable, *arguments], env=dict(env), capture_output=True, check=False
    )
    return checked.returncode == 0


def run_load(env: Mapping[str, str], seconds: int) -> "subprocess.CompletedProcess[str]":
    """Run the load for a moment, by the entry point of its service."""
    init, dashes, _python, *arguments = services()["load"]["entrypoint"]
    assert (init, dashes) == ("/usr/bin/tini", "--")
    return subprocess.run(
        [sys.executable, *arguments],
        env={**env, "LOAD_SECONDS": str(seconds)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where logs go. Programs start where handlers are found, as in the image's folder of them."""
    monkeypatch.chdir(ROOT)
    logs = tmp_path / "logs"
    logs.mkdir()
    return logs


@pytest.mark.slow
def test_the_stack_becomes_healthy_works_the_load_and_ends_in_order(
    stage: Stage, folder: Path
) -> None:
    doors = {"jq_health_port": free_port(), "jq_metrics_port": free_port()}
    server_env = stage.variables("server", **doors, jq_grpc_port=stage.grpc_port)
    doors = {"jq_health_port": free_port(), "jq_metrics_port": free_port()}
    worker_env = stage.variables("worker", **doors)
    assert not healthy("server", server_env)
    server = start("server", folder, server_env).ready()
    worker = start("worker", folder, worker_env)
    try:
        eventually_sync(lambda: healthy("server", server_env), within_s=40)
        eventually_sync(lambda: healthy("worker", worker_env), within_s=40)
        loaded = run_load(stage.variables("load"), 2)
        assert loaded.returncode == 0, loaded.stderr
        taken = int(loaded.stdout.split()[0])
        assert taken > 0
        with Client(f"127.0.0.1:{stage.grpc_port}") as client:
            eventually_sync(lambda: ended(client) == taken, within_s=60, what="the end of the load")
            parts = {part.name: part.state for part in client.status().components}
        assert parts["redis"] == parts["kafka"] == "ok"
        for program in (worker, server):
            program.process.terminate()
            assert program.ended() == 0
        assert not healthy("server", server_env)
        assert not healthy("worker", worker_env)
    finally:
        worker.kill()
        server.kill()


def ended(client: Client) -> int:
    """Return how many jobs came to their end."""
    statuses = frozenset({JobStatus.DONE, JobStatus.DEAD_LETTERED})
    return sum(1 for _ in client.list(JobFilter(statuses=statuses)))
