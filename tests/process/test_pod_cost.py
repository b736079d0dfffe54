"""`jq-worker` in a pod: Kubernetes is told what runs, and cannot disturb it (R-10.2)."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import UUID

import pytest

from jobqueue.store.pool import Connection
from tests.support.facade import serving
from tests.support.family import children_with
from tests.support.kubernetes_api import NAMESPACE, POD, Cluster, hangs, refuses
from tests.support.programs import Program, RemoteWorkerProgram, WorkerProgram
from tests.support.store import status, submit
from tests.support.waiting import eventually

Start = Callable[..., WorkerProgram]
DONE = "DONE"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def in_pod(kube: Cluster) -> Mapping[str, object]:
    """Return the settings of a worker whose cost is kept, and may change each second."""
    return {
        "worker_pod_deletion_cost": "true",
        "worker_pod_deletion_cost_interval_s": 1,
        "worker_kubernetes_credentials_dir": kube.folder,
        "worker_kill_grace_s": 0.5,
    }


@pytest.fixture
def start(
    kube: Cluster, database: str, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    for name, value in kube.env().items():
        monkeypatch.setenv(name, value)
    made: list[WorkerProgram] = []

    def start(*flags: str) -> WorkerProgram:
        flags = ("--queues", "q", *flags)
        made.append(WorkerProgram(database, logs, *flags, **in_pod(kube)))
        return made[-1]

    yield start
    for worker in made:
        worker.kill()


async def ready(worker: Program, count: int = 1) -> None:
    await asyncio.to_thread(worker.ready, count)


async def hold(db: Connection, gate: Path, jobs: int = 1) -> list[UUID]:
    """Submit jobs that run until ``gate`` exists."""
    command = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    return await submit(db, jobs, type="shell", payload=json.dumps({"command": command}).encode())


async def done(db: Connection, jobs: list[UUID]) -> None:
    async def look() -> bool:
        return {await status(db, job) for job in jobs} == {DONE}

    await eventually(look, within_s=30, what="the end of the jobs")


def told(worker: Program, message: str) -> list[dict[str, object]]:
    return [line for line in worker.lines() if line["message"] == message]


async def test_the_annotation_follows_the_jobs_and_the_token_its_rotation(
    kube: Cluster, db: Connection, start: Start, tmp_path: Path
) -> None:
    worker = start()
    await kube.shows(0)
    kube.rotate("second-token")
    jobs = await hold(db, tmp_path / "gate", 3)
    await kube.shows(4)
    (tmp_path / "gate").touch()
    await done(db, jobs)
    await kube.shows(0)
    assert {request.line.partition(" ")[0] for request in kube.requests} == {"PATCH"}
    assert kube.requests[-1].headers["authorization"] == "Bearer second-token"
    first = told(worker, "the pod's deletion cost is written")[0]
    assert (first["pod"], first["namespace"], first["level"]) == (POD, NAMESPACE, "info")
    assert "second-token" not in worker.text()
    worker.send(signal.SIGTERM)
    assert await asyncio.to_thread(worker.ended) == 0


async def test_several_processes_are_one_pod_and_a_dead_one_runs_nothing(
    kube: Cluster, db: Connection, start: Start, tmp_path: Path
) -> None:
    worker = start("--processes", "2", "--concurrency", "2")
    await ready(worker, 2)
    await kube.shows(0)
    # Four jobs are more than one process takes.
    await hold(db, tmp_path / "gate", 4)
    await kube.shows(4)
    children = children_with(worker.process.pid, "jobqueue.cli.worker_process")
    assert len(children) == 2
    children[0].kill()
    await kube.shows(2)
    (tmp_path / "gate").touch()
    worker.send(signal.SIGTERM)
    await asyncio.to_thread(worker.ended)  # with any code: one of them may just have been starting


async def test_a_remote_worker_tells_it_too(
    kube: Cluster, database: str, db: Connection, logs: Path, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    for name, value in kube.env().items():
        monkeypatch.setenv(name, value)
    async with serving(database) as server:
        address = f"127.0.0.1:{server.port}"
        worker = RemoteWorkerProgram(address, logs, "--queues", "q", **in_pod(kube))
        try:
            await hold(db, tmp_path / "gate")
            await kube.shows(1)
            (tmp_path / "gate").touch()
            await kube.shows(0)
        finally:
            worker.kill()


async def test_a_worker_without_the_right_says_which_and_works_on(
    kube: Cluster, db: Connection, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "gate").touch()
    kube.behaviour = refuses(403, 'pods "x" is forbidden')
    worker = start()
    await kube.is_asked(1)
    await done(db, await hold(db, tmp_path / "gate"))

    async def told_why() -> bool:
        lines = told(worker, "the pod's deletion cost cannot be written")
        return any("verb patch on pods" in str(line["cause"]) for line in lines)

    await eventually(told_why, what="the missing right in the log")
    assert worker.process.poll() is None


async def test_an_api_server_that_hangs_holds_up_neither_jobs_nor_the_end(
    kube: Cluster, db: Connection, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "gate").touch()
    kube.behaviour = hangs
    worker = start()
    await ready(worker)
    await kube.is_asked(1)
    await done(db, await hold(db, tmp_path / "gate"))
    worker.send(signal.SIGTERM)
    assert await asyncio.to_thread(worker.ended) == 0, worker.text()
