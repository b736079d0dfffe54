"""Copies of a worker that its handlers make by ``fork``, and what they must not hold open."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from jobqueue.runtime.ports import check_port
from tests.support.redis import free_port
from tests.support.waiting import eventually_sync
from tests.unit.worker.test_handlers import appears, dead

COPY = """
import os, time
def copy():
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    return pid
"""

WORKER = f"""{COPY}
import asyncio, sys
from subprocess import DEVNULL
from jobqueue.runtime.ports import listen
from jobqueue.worker.groups import ProcessGroup
from jobqueue.worker.guard import Guard
async def main():
    guard, null = Guard(), (DEVNULL, DEVNULL, DEVNULL)
    port = listen("health.port", int(sys.argv[2]))
    group = ProcessGroup.spawn(["sleep", "600"], guard, streams=null)
    for name, number in (("copy", copy()), ("program", group.pid)):
        open(sys.argv[1] + name, "w").write(str(number))
    await group.exited()
asyncio.run(main())
"""

FEEDER = f"""{COPY}
import asyncio, signal
from jobqueue.worker.pipes import Inflow, Outflow
async def main():
    kept, (reading, writing) = bytearray(), os.pipe()
    Outflow(os.fdopen(writing, "wb"), bytes(1_000_000))
    other = copy()
    try:
        async with asyncio.timeout(30):
            await Inflow(os.fdopen(reading, "rb"), kept.extend).ended
        os.kill(other, 0)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    print(len(kept))
asyncio.run(main())
"""

TWICE = """
import os
from jobqueue.runtime.copies import close_in_copies
ours = os.fdopen(os.pipe()[0], "rb")
close_in_copies(ours)
def is_closed():
    return os.path.samestat(os.fstat(ours.fileno()), os.stat("/dev/null"))
def code_of_copy():
    return os.waitstatus_to_exitcode(os.wait()[1])
if os.fork() == 0:
    assert is_closed()
    os.dup2(os.open("/dev/zero", os.O_RDONLY), ours.fileno())
    if os.fork() == 0:
        os._exit(is_closed())
    os._exit(code_of_copy())
raise SystemExit(is_closed() or code_of_copy())
"""


async def test_a_killed_worker_leaves_no_program_and_no_port_though_a_copy_of_it_lives(
    tmp_path: Path,
) -> None:
    port = free_port()
    argv = [sys.executable, "-c", WORKER, f"{tmp_path}/", str(port)]
    worker = subprocess.Popen(argv)  # noqa: ASYNC220 - fast
    program = await appears(tmp_path / "program")
    copy = await appears(tmp_path / "copy")
    worker.kill()
    worker.wait()
    try:
        eventually_sync(lambda: dead(program), what="the end of the program")
        check_port("health.port", port)
        assert not dead(copy)
    finally:
        os.kill(copy, signal.SIGKILL)


def test_a_program_meets_the_end_of_its_input_though_a_copy_of_its_worker_lives() -> None:
    argv = [sys.executable, "-c", FEEDER]
    assert (
        subprocess.run(argv, timeout=60, check=True, stdout=subprocess.PIPE).stdout == b"1000000\n"
    )


def test_a_copy_of_a_copy_keeps_what_was_opened_since_under_the_same_number() -> None:
    assert subprocess.run([sys.executable, "-c", TWICE], timeout=60, check=False).returncode == 0
