"""The end of a process group: of all that it started, of nobody else, whatever comes between."""

import asyncio
import errno
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jobqueue.domain.state import Reason
from jobqueue.worker import executor, guard_process, sweep
from jobqueue.worker.groups import ProcessGroup, exit_words
from jobqueue.worker.guard import Guard
from jobqueue.worker.guard_process import Process, end_strays
from jobqueue.worker.signals import LOOK_HANGS, LookHangs
from tests.support.hostile_handlers import STRAY
from tests.support.waiting import HANG_S, eventually
from tests.unit.worker.conftest import Run
from tests.unit.worker.test_handlers import appears, dead, pid_in

NONE = (subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pid"


def leaving_a_stray(guard: Guard, path: Path) -> ProcessGroup:
    """Start a program that ends once what it let loose has noted its id."""
    loose = f"setsid sh -c {shlex.quote(STRAY)} {path} &"
    waits = f"while [ ! -e {path} ]; do sleep 0.01; done"
    return ProcessGroup.spawn(["sh", "-c", f"{loose} {waits}"], guard, streams=NONE)


async def test_who_is_cancelled_while_a_group_ends_is_held_until_its_strays_are_dead(
    guard: Guard, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_look = threading.Event(), threading.Event()

    def slowly(*args: object) -> None:
        begun.set()
        assert may_look.wait(20)
        end_strays(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep, "end_strays", slowly)
    group = leaving_a_stray(guard, path)
    stray = await appears(path)
    await group.exited()
    ending = asyncio.create_task(group.end())
    await asyncio.to_thread(begun.wait, 20)
    ending.cancel()
    await asyncio.sleep(0)
    assert not dead(stray)
    may_look.set()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert dead(stray)


async def test_a_group_ends_without_a_look_that_hangs(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[LookHangs] = []
    forget, goes_on = LOOK_HANGS.subscribe(told.append), threading.Event()
    monkeypatch.setattr(sweep, "LOOK_LIMIT_S", 0.1)
    monkeypatch.setattr(sweep, "end_strays", lambda *_: goes_on.wait(60))
    group = ProcessGroup.spawn(["sh", "-c", "exit 3"], guard, streams=NONE)
    async with asyncio.timeout(30):
        await group.exited()
        assert await group.end() == 3
    goes_on.set()
    forget()
    assert told


@pytest.mark.usefixtures("_no_patience")
async def test_a_stopped_attempt_is_over_without_a_look_that_hangs_and_its_worker_fit(
    timed_out: Run, unfit: list[str], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 2 * sum(sweep.HASTY_LOOK_S) < executor.DEATH_LIMIT_S
    begun, goes_on = threading.Event(), threading.Event()

    def hang(*_: object) -> list[Process]:
        begun.set()
        goes_on.wait(2 * HANG_S)
        return []

    monkeypatch.setattr(sweep, "LOOK_LIMIT_S", 2 * HANG_S)
    monkeypatch.setattr(sweep, "processes", hang)
    # Only against the load of this machine: it is what a hang would have to last.
    monkeypatch.setattr(executor, "DEATH_LIMIT_S", HANG_S / 2)
    try:
        settlement = await timed_out("sleeps", path)
        assert begun.is_set()
    finally:
        goes_on.set()
    assert settlement.reason is Reason.TIMED_OUT
    assert dead(pid_in(path))
    assert not unfit


async def test_behind_a_look_that_hangs_no_other_waits_until_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[set[str]] = []
    goes_on, sweeper = threading.Event(), sweep.Sweeper()

    def hang(marks: set[str], *_: object) -> None:
        if marks <= {"first", "meanwhile", "last"}:  # what another test left is looked for too
            looked.append(marks)
            goes_on.wait(2 * HANG_S)

    async def looks_again() -> bool:
        await sweeper.sweep("last", ())
        return {"last"} in looked

    monkeypatch.setattr(sweep, "end_strays", hang)
    monkeypatch.setattr(sweep, "LOOK_LIMIT_S", 0.1)
    await sweeper.sweep("first", ())
    monkeypatch.setattr(sweep, "LOOK_LIMIT_S", 2 * HANG_S)
    async with asyncio.timeout(HANG_S):
        await sweeper.sweep("meanwhile", ())
        assert await sweeper.kin(os.getpid()) == []
    goes_on.set()
    await eventually(looks_again, what="a look")
    assert looked == [{"first"}, {"last"}]
    sweeper.close()


def test_a_look_that_hangs_keeps_no_process_from_its_end() -> None:
    code = (
        "import asyncio, threading\n"
        "from jobqueue.worker import sweep\n"
        "sweep.LOOK_LIMIT_S = 0.1\n"
        "sweep.end_strays = lambda *_: threading.Event().wait()\n"
        "async def main():\n"
        "    sweeper = sweep.Sweeper()\n"
        "    await sweeper.sweep('mark', ())\n"
        "    sweeper.close()\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


async def test_a_leader_that_has_died_keeps_its_number_until_its_group_is_ended(
    guard: Guard,
) -> None:
    group = ProcessGroup.spawn(["sh", "-c", "exit 3"], guard, streams=NONE)
    assert await group.exited() == 3
    os.kill(group.pid, 0)  # nobody else can have the number
    assert await group.end() == 3
    with pytest.raises(ProcessLookupError):
        os.kill(group.pid, 0)


async def test_a_group_that_has_ended_is_signalled_no_more_for_its_number_may_be_anothers(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[int] = []
    group = ProcessGroup.spawn(["sleep", "600"], guard, streams=NONE)
    assert await group.end() == -signal.SIGKILL
    monkeypatch.setattr(os, "killpg", lambda number, _: signalled.append(number))
    assert await group.end() == await group.end(asyncio.sleep(600)) == -signal.SIGKILL
    assert not signalled


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can tell")
async def test_a_leader_that_somebody_else_reaped_has_not_ended_well(guard: Guard) -> None:
    group = ProcessGroup.spawn(["sh", "-c", "read -r _"], guard, streams=NONE)
    os.waitpid(group.pid, 0)  # noqa: ASYNC222 - before the loop can look
    code = await group.exited()
    assert exit_words(code) == "ended, and a handler took its exit code from the worker"
    assert await group.end() == code != 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread waits")
async def test_a_leader_that_cannot_be_watched_by_a_descriptor_leaves_none_open(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    def open_pidfd(pid: int) -> int:
        opened.append(pidfd_open(pid))
        return opened[-1]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    pidfd_open = os.pidfd_open
    monkeypatch.setattr(os, "pidfd_open", open_pidfd)
    monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
    group = ProcessGroup.spawn(["sh", "-c", "kill -SEGV $$"], guard, streams=NONE)
    assert await group.exited() == -signal.SIGSEGV, "a thread has waited for it"
    (number,) = opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    monkeypatch.undo()
    await group.end()


@pytest.mark.parametrize("lacking", ["folder", "files"])
async def test_strays_are_looked_for_again_when_there_was_no_descriptor_to_look_with(
    guard: Guard, path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    looks, refused, scandir = 0, 0, os.scandir

    def opened(what: str, call: Callable[[], object]) -> object:
        nonlocal refused
        if looks <= 2 and what == lacking:
            refused += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return call()

    def look(folder: str) -> object:
        nonlocal looks
        looks += 1
        return opened("folder", lambda: scandir(folder))

    def look_into(file: str, mode: str, buffering: int) -> object:
        return opened("files", lambda: open(file, mode, buffering))  # noqa: PTH123 - as it is called

    group = leaving_a_stray(guard, path)
    stray = await appears(path)
    await group.exited()
    monkeypatch.setattr(os, "scandir", look)
    monkeypatch.setattr(guard_process, "open", look_into, raising=False)
    await group.end()
    monkeypatch.undo()
    assert refused > 1
    assert dead(stray)
