"""A machine that has no more to give: processes, descriptors, room for lines (R-4.10, R-4.12)."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import asyncpg
import psutil
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.v1 import job_pb2
from tests.support.facade import Facade, serving
from tests.support.family import children_with, family, told_by
from tests.support.programs import FREE_PORTS, Program, environment, measured_environment
from tests.support.redis import free_port
from tests.support.soundness import assert_sound
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits of Linux")

TIMES = {
    "reaper__interval_ms": 100,
    "scheduler__interval_ms": 100,
    "retry__base_delay_s": 0.1,
    "retry__max_delay_s": 0.5,
}
HANDLERS = ("--handlers", "tests.support.handlers,tests.support.hostile_handlers", "--allow-shell")
BOUND_BY_LIMITS = ["setpriv", "--ruid", "47011", "--bounding-set=-sys_admin,-sys_resource"]
"""Root may start processes beyond every limit; this one keeps its files and loses that."""
MEAN = ["sh", "-c", 'ulimit -n 64; exec "$0" "$@"']
DEAF = ["sh", "-c", 'exec "$0" "$@" >/dev/full 2>&1']
LACKS = "Resource temporarily unavailable"
UNTIL_TOLD = "trap 'echo told; exit' USR1; while :; do sleep 0.05; done"
KINDS = {
    "shell": f"cannot start '/bin/sh': {LACKS}",
    "echo": f"ChildFailed: a handler process cannot be started: [Errno 11] {LACKS}",
    "thread": "RuntimeError: can't start new thread",
}
"""What needs a process or a thread, and what its failure says."""
TOO_MANY = """
    SELECT count(*) FROM jobqueue.job_events
    WHERE to_status = 'FAILED' AND detail LIKE '%Too many open files%'
"""
REGISTERED = "SELECT count(*) FROM jobqueue.workers WHERE status = 'ACTIVE'"

Start = Callable[..., Program]


def shell(command: str) -> bytes:
    return json.dumps({"command": command}).encode()


@pytest_asyncio.fixture
async def server(database: str, conn: asyncpg.Connection) -> AsyncIterator[Facade]:
    async with serving(database, **TIMES) as facade:
        yield facade
    await assert_sound(conn)


@pytest.fixture
def start(database: str, tmp_path: Path) -> Iterator[Start]:
    """Start `jq-server` or `jq-worker` by another program, which becomes it."""
    folder = tmp_path / "logs"
    folder.mkdir()
    with ExitStack() as running:

        def start(by: Sequence[str], name: str, *flags: str) -> Program:
            argv = [*by, str(Path(sys.executable).with_name(name)), *flags]
            program = Program(argv, folder, environment_of(name, database))
            running.callback(program.kill)
            return program

        yield start


def environment_of(name: str, database: str) -> dict[str, str]:
    if name == "jq-server":
        return environment(db_url=database, **FREE_PORTS)
    return measured_environment(db_url=database, **FREE_PORTS)


def children_by_kind(program: Program) -> dict[str, list[psutil.Process]]:
    """Return the children of a worker by what they are."""
    found: dict[str, list[psutil.Process]] = {"keeper_process": [], "guard": [], "child": []}
    children = psutil.Process(program.process.pid).children()
    for each, words in told_by(children, psutil.Process.cmdline):
        command = " ".join(words)
        for word, of_this_kind in found.items():
            if f".{word}" in command or f"{word}_process.py" in command:
                of_this_kind.append(each)
    return found


async def test_a_worker_that_can_start_no_process_fails_what_needs_one_and_goes_on(
    server: Facade, start: Start
) -> None:
    worker = start(BOUND_BY_LIMITS if os.geteuid() == 0 else [], "jq-worker", *HANDLERS)
    await asyncio.to_thread(worker.ready)
    under_way = await server.submit(type="shell", payload=shell(UNTIL_TOLD))
    await server.becomes(under_way, "RUNNING")
    await done(server, "async-allows-processes", b"0")

    before = children_by_kind(worker)
    assert all(before.values()), "a keeper, a guard, and processes for handlers"
    for each in chain(*before.values()):
        each.kill()
    await done(server, "async-returns", b"none")
    for kind, error in KINDS.items():
        refused = await server.submit(type=kind, payload=shell("true"), max_retries=0)
        job = await server.becomes(refused, "DEAD_LETTERED")
        assert job.last_error.startswith(error)
    tell_to_end(worker)
    assert (await server.becomes(under_way, "DONE")).result == b"told\n"
    assert not any(children_by_kind(worker).values()), "none could be replaced"

    await done(server, "async-allows-processes", b"")
    for kind in KINDS:
        await done(server, kind, shell("true"))

    async def whole() -> bool:
        return all(children_by_kind(worker).values())

    await eventually(whole, what="another keeper, guard and process for handlers")
    worker.send(signal.SIGTERM)
    assert await asyncio.to_thread(worker.ended) == 0


def tell_to_end(worker: Program) -> None:
    """Signal the shell job that waits for it."""
    (shell,) = children_with(worker.process.pid, UNTIL_TOLD)
    shell.send_signal(signal.SIGUSR1)


async def done(server: Facade, kind: str, payload: bytes) -> job_pb2.Job:
    """Run a job, which must succeed at once."""
    job = await server.becomes(await server.submit(type=kind, payload=payload), "DONE")
    assert job.attempt == 1
    return job


async def test_a_worker_with_64_descriptors_loses_nothing_when_they_do_not_suffice(
    server: Facade, start: Start, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    worker = start(MEAN, "jq-worker", *HANDLERS, "--concurrency", "40")
    await asyncio.to_thread(worker.ready)
    go = tmp_path / "go"
    payload = shell(f"while [ ! -e {go} ]; do sleep 0.1; done")
    jobs = [await server.submit(type="shell", payload=payload, max_retries=100) for _ in range(60)]
    await eventually(lambda: conn.fetchval(TOO_MANY), what="a job for which they do not suffice")
    go.touch()
    for job_id in jobs:
        await server.becomes(job_id, "DONE", within_s=60)
    await done(server, "echo", b"x")
    worker.send(signal.SIGTERM)
    assert await asyncio.to_thread(worker.ended) == 0


async def test_a_server_with_64_descriptors_serves_again_when_callers_have_left(
    start: Start, conn: asyncpg.Connection
) -> None:
    server = start(MEAN, "jq-server", "--grpc-port", str(port := free_port()))
    await asyncio.to_thread(server.ready)
    async with AsyncClient(f"127.0.0.1:{port}", timeout_s=60.0) as client:
        before = await client.submit(JobSpec("default"))
    with ExitStack() as callers:
        for _ in range(100):
            callers.enter_context(socket.create_connection(("127.0.0.1", port)))

        async def full() -> bool:
            return psutil.Process(server.process.pid).num_fds() == 64

        await eventually(full, what="a server without a free descriptor")
    async with AsyncClient(f"127.0.0.1:{port}", timeout_s=60.0) as client:
        after = await client.submit(JobSpec("default"))
        assert {job.job_id async for job in client.list()} == {before.job_id, after.job_id}
    server.send(signal.SIGTERM)
    assert await asyncio.to_thread(server.ended) == 0


async def test_programs_whose_lines_find_no_room_work_on(
    start: Start, conn: asyncpg.Connection
) -> None:
    port = free_port()
    server = start(DEAF, "jq-server", "--grpc-port", str(port), "--log-level", "trace")
    worker = start(DEAF, "jq-worker", *HANDLERS, "--log-level", "trace")
    async with AsyncClient(f"127.0.0.1:{port}", timeout_s=60.0) as client:
        await eventually(lambda: conn.fetchval(REGISTERED), within_s=60, what="a worker")
        kinds = {"echo": b"x", "async-returns": b"none", "thread": b"", "shell": shell("echo x")}
        for kind, payload in kinds.items():
            made = await client.submit(JobSpec("default", payload, type=kind, max_retries=0))
            ended = await client.wait(made.job_id)
            assert str(ended.status) == "DONE", (kind, ended.last_error)
    for program in (worker, server):
        assert program.size() == 0
        program.send(signal.SIGTERM)
        assert await asyncio.to_thread(program.ended) == 0


@pytest.mark.parametrize("kind", ["prints-much", "async-prints-much"])
async def test_a_handler_that_floods_the_streams_of_its_worker_costs_no_memory(
    server: Facade, start: Start, tmp_path: Path, kind: str
) -> None:
    much, most_grown = 100_000_000, 50 * 1024 * 1024
    os.mkfifo(way := tmp_path / "way")
    reading = asyncio.create_task(asyncio.to_thread(size_of, way))
    flowing = ["sh", "-c", f'exec "$0" "$@" >{way} 2>&1']
    worker = start(flowing, "jq-worker", *HANDLERS, "--log-level", "error")
    await done(server, "async-returns", b"none")
    before = memory(worker)
    job_id = await server.submit(type=kind, payload=b"%d" % much)
    most = before

    async def ended() -> bool:
        nonlocal most
        most = max(most, memory(worker))
        return (await server.get(job_id)).status == job_pb2.JOB_STATUS_DONE

    await eventually(ended, within_s=60, what="the end of a flood")
    assert most - before < most_grown
    assert (await server.get(job_id)).attempt == 1
    await done(server, "echo", b"x")
    worker.send(signal.SIGTERM)
    assert await asyncio.to_thread(worker.ended) == 0
    assert await reading >= much


def size_of(way: Path) -> int:
    """Read to the end, and keep nothing."""
    with way.open("rb") as stream:
        return sum(map(len, iter(lambda: stream.read(65_536), b"")))


def memory(program: Program) -> int:
    """Return the bytes that a program and its children have in memory."""
    told = told_by(family(program.process.pid), psutil.Process.memory_info)
    return sum(memory.rss for _, memory in told)
