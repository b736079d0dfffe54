"""Hostile handlers beside good ones: a real worker, on the database and behind a server.

What can be contained harms nobody: the hostile attempt has its promised end, nothing of it is left
alive, the others finish at their first attempt, and every slot comes back. What cannot costs its
own process of the worker, which is replaced.
"""

import asyncio
import json
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
import pytest_asyncio

from jobqueue.v1 import job_pb2
from tests.support.facade import Facade, serving
from tests.support.family import children_with
from tests.support.hostile_handlers import STRAY
from tests.support.programs import Program, RemoteWorkerProgram, WorkerProgram
from tests.support.soundness import assert_sound
from tests.support.waiting import eventually
from tests.unit.worker.test_handlers import appears, dead, pid_in

SLOTS = 6
LEASE_S, DEADLY_LEASE_S, LONG_LEASE_S = 8, 4, 30
HANDLERS = "tests.support.handlers,tests.support.hostile_handlers"
FLAGS = ("--handlers", HANDLERS, "--allow-shell", "--concurrency", str(SLOTS))
TIMES = {
    "worker__heartbeat_interval_s": 0.5,
    "reaper__interval_ms": 100,
    "reaper__crash_limit": 1,
    "scheduler__interval_ms": 100,
}
WORKER = {
    "worker_heartbeat_interval_s": 0.5,
    "worker_kill_grace_s": 0.5,
}
HELD_OFF = "a handler tried to end the worker's loop"
LOST = """
    SELECT count(*) FROM jobqueue.job_events
    WHERE from_status = 'RUNNING' AND reason = 'LEASE_EXPIRED'
"""
"""What waits in the stream of a worker that stands still is nobody's yet, and goes elsewhere."""


@dataclass(frozen=True)
class Hostile:
    """A job, and how it must end: None is DONE, else the beginning of its error."""

    type: str
    error: str | None
    payload: bytes | None = None
    timeout_s: int | None = None

    @property
    def lets_loose(self) -> bool:
        """Tell whether it starts a process that leaves its group."""
        return "leaves" in self.type or "daemon" in self.type or b"NOTE" in (self.payload or b"")

    def spec(self, note: Path) -> dict[str, Any]:
        """Return what to submit; handlers without a payload are told where to note a process."""
        payload = os.fsencode(note) if self.payload is None else self.payload
        limit = {} if self.timeout_s is None else {"run_timeout": {"seconds": self.timeout_s}}
        payload = payload.replace(b"NOTE", os.fsencode(note))
        return {"type": self.type, "payload": payload, "max_retries": 0, **limit}


def shell(command: str, error: str | None, timeout_s: int | None = None) -> Hostile:
    return Hostile("shell", error, json.dumps({"command": command}).encode(), timeout_s)


LOOSE = f"setsid sh -c {shlex.quote(STRAY)} NOTE & while [ ! -e NOTE ]; do sleep 0.01; done"
CONTAINED = [
    Hostile("leaves-a-child", None),
    Hostile("leaves-a-nameless-child", None),
    Hostile("leaves-a-daemon", None),
    Hostile("crashes-beside-a-daemon", "handler process died with signal SIGSEGV"),
    Hostile("hangs-beside-a-daemon", "timed out after 5 s", timeout_s=5),
    Hostile("forks-a-slow-copy", None),
    Hostile("closes-every-file", "handler process exited with code 1"),
    Hostile("writes-into-every-file", "handler process broke the connection"),
    Hostile("runs-out-of-memory", "MemoryError"),
    Hostile("exits-at-once", "handler process exited with code 7"),
    Hostile("raises", "SystemExit", b"exit"),
    Hostile("raises", "RecursionError", b"recursion"),
    Hostile("async-exits-in-a-task", None),
    Hostile("async-stops-the-loop", None),
    Hostile("async-closes-the-loop", "RuntimeError"),
    Hostile("async-cancels-itself", None),
    Hostile("async-forks", None),
    Hostile("async-forks-and-returns", None),
    Hostile("async-raises", "SystemExit", b"exit"),
    Hostile("async-raises", "KeyboardInterrupt", b"interrupt"),
    Hostile("async-raises", "GeneratorExit", b"generator"),
    Hostile("async-raises", "RuntimeError: coroutine raised StopIteration", b"stop"),
    Hostile("async-sets-a-trap", "Trap"),
    Hostile("thread-sets-a-trap", "Trap"),
    Hostile("thread-raises", "SystemExit", b"exit"),
    shell(f"{LOOSE}; echo done", None),
    shell(f"{LOOSE}; sleep 60", "timed out after 5 s", 5),
    shell("kill -KILL 0", "died with signal SIGKILL"),
    shell("exec <&- >&- 2>&-; exit 0", None),
    shell(
        "ulimit -v 100000; exec head -c 200M /dev/zero | tail",
        "exited with code 1: tail: memory exhausted",
    ),
]
BYSTANDERS = ["bystander", "async-bystander"]
FATAL = {
    "kills-its-worker": "CRASH_LIMIT",
    "async-ends-its-process": "CRASH_LIMIT",
    "async-ends-its-process-with-two": "CRASH_LIMIT",
    "async-segfaults": "CRASH_LIMIT",
    "async-cancels-all": "COMPLETED",  # it returns, and then its worker is at its end
}

Start = Callable[..., Program]


def renewal_s(lease_s: int) -> float:
    """Return how often to renew: a short lease lives through three that fail, and no more."""
    return min(lease_s / 4, 2.0)


@pytest.fixture
def lease_s() -> int:
    return LEASE_S


@pytest_asyncio.fixture
async def server(database: str, conn: asyncpg.Connection, lease_s: int) -> AsyncIterator[Facade]:
    lease = {"lease__duration_s": lease_s, "lease__renew_interval_s": renewal_s(lease_s)}
    async with serving(database, **lease, **TIMES) as facade:
        yield facade
    await assert_sound(conn)


@pytest.fixture(params=["direct", "remote"])
def start(
    request: pytest.FixtureRequest, database: str, server: Facade, tmp_path: Path, lease_s: int
) -> Iterator[Start]:
    """Start workers, on the database or behind the server."""
    lease = {"lease_duration_s": lease_s, "lease_renew_interval_s": renewal_s(lease_s)}
    settings = {**WORKER, **lease}
    folder = tmp_path / "logs"
    folder.mkdir()
    made: list[Program] = []

    def start(*flags: str) -> Program:
        if request.param == "direct":
            made.append(WorkerProgram(database, folder, *FLAGS, *flags, **settings))
        else:
            address = f"127.0.0.1:{server.port}"
            made.append(RemoteWorkerProgram(address, folder, *FLAGS, *flags, **settings))
        return made[-1]

    yield start
    for program in made:
        program.kill()


def fault(hostile: Hostile, job: job_pb2.Job, note: Path) -> str | None:
    """Return what is wrong with the end of a hostile job."""
    done = job.status == job_pb2.JOB_STATUS_DONE
    if done != (hostile.error is None) or not job.last_error.startswith(hostile.error or ""):
        return f"ended {job_pb2.JobStatus.Name(job.status)}: {job.last_error[:200]!r}"
    if job.attempt != 1:
        return f"began {job.attempt} times"
    if note.exists() != hostile.lets_loose:
        return "its process and its note do not go together"
    if hostile.lets_loose and not dead(pid_in(note)):
        return "left a process alive"
    return None


async def ended(server: Facade, job_id: str) -> job_pb2.Job:
    """Wait until a job is over."""
    over = {job_pb2.JOB_STATUS_DONE, job_pb2.JOB_STATUS_DEAD_LETTERED}

    async def look() -> job_pb2.Job | None:
        job = await server.get(job_id)
        return job if job.status in over else None

    job = await eventually(look, within_s=60, what=f"the end of {job_id}")
    assert job is not None
    return job


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_no_hostile_handler_harms_another_or_outlives_its_attempt(
    server: Facade, start: Start, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    worker = start()
    await asyncio.to_thread(worker.ready)
    notes = [tmp_path / f"note-{i}" for i in range(len(CONTAINED))]
    hostile: list[str] = []
    others: list[str] = []
    for each, note in zip(CONTAINED, notes, strict=True):
        hostile.append(await server.submit(**each.spec(note)))
        others += [await server.submit(type=kind, payload=kind.encode()) for kind in BYSTANDERS]

    faults = {}
    for each, note, job_id in zip(CONTAINED, notes, hostile, strict=True):
        if wrong := fault(each, await ended(server, job_id), note):
            faults[f"{each.type} {each.payload!r}"] = wrong
    assert faults == {}
    for job_id in others:
        job = await ended(server, job_id)
        assert (job.result, job.attempt) == (job.type.encode(), 1), job.last_error
    assert await conn.fetchval(LOST) == 0
    assert worker.process.poll() is None
    assert [line["message"] for line in worker.lines()].count(HELD_OFF) == 2
    await every_slot_is_free(server, tmp_path)


async def every_slot_is_free(server: Facade, folder: Path) -> None:
    """Run as many jobs as there are slots; each ends only when all have begun."""
    begun, all_begun = f"{folder}/begun-$JQ_JOB_ID", f"$(ls {folder}/begun-* | wc -l) -eq {SLOTS}"
    command = f"touch {begun}; while [ ! {all_begun} ]; do sleep 0.05; done"
    payload = json.dumps({"command": command}).encode()
    ids = [await server.submit(type="shell", payload=payload) for _ in range(SLOTS)]
    for job_id in ids:
        await server.becomes(job_id, "DONE")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lease_s", [DEADLY_LEASE_S])
async def test_a_handler_that_ends_its_worker_costs_one_process_which_is_replaced(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    family = start("--processes", "2")
    await asyncio.to_thread(family.ready, 2)
    for ended_before, (kind, reason) in enumerate(FATAL.items()):
        note = tmp_path / kind
        poison = await server.submit(type=kind, payload=os.fsencode(note))
        assert (await ended(server, poison)).reason == reason, kind
        await asyncio.to_thread(family.ready, 3 + ended_before)
        assert note.exists() == (kind == "kills-its-worker")
        assert not note.exists() or dead(pid_in(note))
    other = await server.submit(type="bystander", payload=b"ok")
    assert (await ended(server, other)).result == b"ok"
    assert family.process.poll() is None


async def test_a_handler_that_holds_the_interpreter_for_longer_than_a_lease_costs_none(
    server: Facade, start: Start, conn: asyncpg.Connection
) -> None:
    await asyncio.to_thread(start().ready)
    too_long = LEASE_S + 3
    command = json.dumps({"command": f"sleep {too_long}"}).encode()
    ids = [await server.submit(type="shell", payload=command)]
    await server.becomes(ids[0], "RUNNING")
    seconds = str(too_long).encode()
    ids.append(await server.submit(type="async-holds-the-interpreter", payload=seconds))
    await server.becomes(ids[1], "RUNNING")
    ids += [await server.submit(type=kind) for kind in BYSTANDERS]  # to a worker that stands still
    for job_id in ids:
        job = await ended(server, job_id)
        assert (job.attempt, job.retry_count) == (1, 0), job
    assert await conn.fetchval(LOST) == 0


@pytest.mark.parametrize("lease_s", [LONG_LEASE_S])
async def test_a_keeper_that_a_handler_stops_is_replaced_and_costs_no_lease(
    server: Facade, start: Start, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    stop, go = tmp_path / "stop", tmp_path / "go"
    worker = await asyncio.to_thread(start().ready)
    (keeper,) = keepers(worker)
    wait = "while [ ! -e {} ]; do sleep 0.05; done"
    command = f"{wait.format(stop)}; kill -STOP {keeper.pid}; {wait.format(go)}"
    payload = json.dumps({"command": command}).encode()
    job_id = await server.submit(type="shell", payload=payload)
    await server.becomes(job_id, "RUNNING")
    await renewed(conn)  # a keeper has much longer than a lease until its first word
    stop.touch()

    async def replaced() -> bool:
        return {each.pid for each in keepers(worker)} - {keeper.pid} != set()

    await eventually(replaced, what="another keeper")
    await renewed(conn)
    go.touch()
    assert (await server.becomes(job_id, "DONE")).attempt == 1


def keepers(worker: Program) -> list[psutil.Process]:
    return children_with(worker.process.pid, "keeper_process")


async def renewed(conn: asyncpg.Connection) -> None:
    """Wait until the one lease that there is was renewed."""
    expiry = "SELECT expires_at FROM jobqueue.leases"
    first = await conn.fetchval(expiry)
    later = f"SELECT ({expiry}) > $1"
    await eventually(lambda: conn.fetchval(later, first), what="a renewal")


@pytest.mark.parametrize("lease_s", [LONG_LEASE_S])
async def test_a_stuck_thread_ends_its_worker_and_the_other_job_goes_back(
    server: Facade, start: Start, tmp_path: Path
) -> None:
    worker = await asyncio.to_thread(start().ready)
    other = await server.submit(type="sleeps", payload=str(tmp_path / "pid").encode())
    await appears(tmp_path / "pid")
    await server.submit(type="thread-deaf", run_timeout={"nanos": 300_000_000})
    assert await asyncio.to_thread(worker.ended) == 3, worker.text()
    assert (await server.becomes(other, "PENDING")).retry_count == 0
