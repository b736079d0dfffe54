"""What programs log when the database goes away, at the finest level, with secrets everywhere."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest

from jobqueue.client import Client, Job, JobSpec
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import JobQueueError
from jobqueue.runtime.log_lines import LINE_BYTES
from tests.support.programs import Program, RemoteWorkerProgram, ServerProgram, WorkerProgram
from tests.support.waiting import eventually_sync

# The first test pays for three programs and an outage.
pytestmark = pytest.mark.timeout(300)

PLANTED = "pl4nted"
PASSWORD, APP_KEY, WORK_KEY, WRONG_KEY, SIGNING, PAYLOAD, REDIS, KAFKA = (
    f"{PLANTED}-{name}-0123456789-0123456789"
    for name in ("dsn", "app", "work", "wrong", "signing", "payload", "redis", "kafka")
)
GONE = "127.0.0.1:9"
SERVER = {
    "auth_api_keys": f"app:admin:{APP_KEY},fleet:work:{WORK_KEY}",
    "auth_jwt_secret": SIGNING,
    "redis_addr": GONE,
    "redis_password": REDIS,
    "kafka_brokers": GONE,
    "kafka_security_protocol": "SASL_PLAINTEXT",
    "kafka_sasl_mechanism": "PLAIN",
    "kafka_sasl_username": "jq",
    "kafka_sasl_password": KAFKA,
    "scheduler_interval_ms": 100,
}
FLAGS = ("--log-level", "trace", "--handlers", "tests.support.leaky_handlers", "--allow-shell")
SHELL = json.dumps({"command": f"echo {PAYLOAD} >&2; exit 3"}).encode()
LEVELS = {"trace", "debug", "info", "warn", "error"}
OUTAGE_S, QUIET_S = 25.0, 10.0
OUTAGE = "cannot work now, trying again"
KEEPING = "keeper-presence"
LOOPS = (None, KEEPING, KEEPING)
"""What has to fail in server, worker and remote worker while the database is away.

In a server any loop will do: one speaks for all in ten seconds, and which it is is luck.
"""


@dataclass(frozen=True)
class Ordeal:
    """Three programs after an outage, the jobs they ran before it, and how it went."""

    server: Program
    worker: Program
    remote: Program
    jobs: dict[str, Job]
    refused: list[str]
    troubled_s: float
    """From its beginning until all worked again."""
    told_before: dict[Program, int]

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self.server, self.worker, self.remote)


@pytest.fixture(scope="module")
def ordeal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ordeal]:
    folder = tmp_path_factory.mktemp("ordeal")
    (folder / "logs").mkdir()
    with EmbeddedPostgres(folder / "pg", durable=False) as postgres, ExitStack() as running:
        server, worker, remote = programs = _start(postgres.dsn, folder / "logs", running)
        with Client(server.address, api_key=APP_KEY) as client:
            client.create_queue("far")
            jobs = _run_each_kind(client)
            refused = _knock(server)
            told: dict[Program, int] = {program: len(program.lines()) for program in programs}
            begun = time.monotonic()
            _go_without(postgres, client, programs)
            _run_each_kind(client)
            troubled_s = time.monotonic() - begun
        yield Ordeal(server, worker, remote, jobs, refused, troubled_s, told)


def _start(
    dsn: str, logs: Path, running: ExitStack
) -> tuple[ServerProgram, WorkerProgram, RemoteWorkerProgram]:
    user, at, rest = dsn.partition("@")
    dsn = f"{user.removesuffix(':')}:{PASSWORD}{at}{rest}"
    server = ServerProgram(dsn, logs, "--log-level", "trace", **SERVER)
    running.callback(server.kill)
    address = server.ready().address
    worker = WorkerProgram(dsn, logs, *FLAGS)
    running.callback(worker.kill)
    remote = RemoteWorkerProgram(address, logs, *FLAGS, "--queues", "far", api_key=WORK_KEY)
    running.callback(remote.kill)
    return server, worker.ready(), remote.ready()


def _run_each_kind(client: Client) -> dict[str, Job]:
    """Run a job of each kind by each worker."""
    payloads = {"returns": PAYLOAD.encode(), "shell": SHELL}
    ids = {
        f"{type_}/{queue}": client.submit(
            JobSpec(queue, payloads.get(type_, PAYLOAD.encode()), type_, max_retries=0)
        ).job_id
        for type_ in ("returns", "raises", "raises-in-process", "shell")
        for queue in ("default", "far")
    }
    return {name: client.wait(job_id, timeout_s=60) for name, job_id in ids.items()}


def _knock(server: ServerProgram) -> list[str]:
    """Try credentials that are refused; return what the caller was told."""
    told = []
    claims = {"exp": time.time() - 3600, "roles": ["admin"], "sub": "app"}
    for key in (WRONG_KEY, jwt.encode(claims, SIGNING, algorithm="HS256")):
        with Client(server.address, api_key=key) as client, pytest.raises(JobQueueError) as caught:
            client.submit(JobSpec("default"))
        told.append(str(caught.value))
    return told


def _go_without(postgres: EmbeddedPostgres, client: Client, programs: tuple[Program, ...]) -> None:
    """Stop PostgreSQL for a while under everything."""
    begun = time.monotonic()
    postgres.stop()
    with pytest.raises(JobQueueError):
        client.submit(JobSpec("default", PAYLOAD.encode()))
    eventually_sync(
        lambda: time.monotonic() >= begun + OUTAGE_S and all(map(_in_need, programs, LOOPS)),
        within_s=60,
        what="an outage that all have noticed",
    )
    postgres.start()


def _in_need(program: Program, loop: str | None) -> bool:
    failing = {line["loop"] for line in program.lines() if "loop" in line and "cause" in line}
    return bool(failing) if loop is None else loop in failing


def complaints(ordeal: Ordeal, program: Program) -> list[dict[str, Any]]:
    later = program.lines()[ordeal.told_before[program] :]
    return [line for line in later if line["level"] in {"warn", "error"}]


def test_every_line_is_a_json_object_of_the_one_shape(ordeal: Ordeal) -> None:
    services = dict(zip(ordeal.programs, ("jq-server", "jq-worker", "jq-worker"), strict=True))
    for program, service in services.items():
        for text in program.text().splitlines():
            line = json.loads(text)
            assert {"timestamp", "level", "service", "message", "logger"} <= line.keys()
            assert (line["service"], line["level"] in LEVELS) == (service, True)
            assert ("worker_id" in line) == (service == "jq-worker")
            assert len(text) < LINE_BYTES


def test_an_outage_is_told_once_per_cause_and_ten_seconds(ordeal: Ordeal) -> None:
    periods = 1 + ordeal.troubled_s // QUIET_S
    assert periods >= 3
    for program in ordeal.programs:
        told = complaints(ordeal, program)
        assert told, "nothing was lost"
        causes = Counter(map(cause_of, told))
        assert 1 < max(causes.values()) <= periods
        assert len(told) <= 40 * periods


def cause_of(line: dict[str, Any]) -> tuple[object, ...]:
    """Return what a line is about. Of an outage one loop speaks for all of its process."""
    loop, error = line.get("loop"), line.get("exception", {"type": None})
    if line["message"] == OUTAGE:
        loop = "of the keeper" if str(loop).startswith("keeper-") else "of the program"
    return (line["logger"], line["message"], loop, line.get("cause"), error["type"])


def test_the_lines_of_keepers_are_among_those_of_their_workers(ordeal: Ordeal) -> None:
    for worker in (ordeal.worker, ordeal.remote):
        (line, *_) = [line for line in complaints(ordeal, worker) if line.get("loop") == KEEPING]
        assert (line["logger"], line["level"]) == ("jobqueue.runtime.service", "warn")


def test_at_trace_each_statement_is_a_line_with_its_name(ordeal: Ordeal) -> None:
    for program, name in ((ordeal.server, "submit_jobs"), (ordeal.worker, "claim_jobs")):
        lines = [line for line in program.lines() if line.get("statement") == name]
        assert {line["level"] for line in lines} == {"trace"}


def test_neither_secrets_nor_payloads_nor_results_are_in_any_line(ordeal: Ordeal) -> None:
    returned, raised = ordeal.jobs["returns/far"], ordeal.jobs["raises/default"]
    assert returned.result == PAYLOAD.encode(), "the secret was not there"
    assert PAYLOAD in (raised.last_error or ""), "the secret was not there"
    assert len(ordeal.refused) == 2
    for program in ordeal.programs:
        assert PLANTED not in program.text()
    assert PLANTED not in repr(ordeal.refused)
