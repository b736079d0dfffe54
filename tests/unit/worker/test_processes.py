"""Process groups, their guard, the pool of children, and the family of workers."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jobqueue.domain.limits import Limits
from jobqueue.runtime.shutdown import ShutdownSignals
from jobqueue.worker import supervisor
from jobqueue.worker.children import ChildFailed, ChildSetup, Pool
from jobqueue.worker.frames import Frame
from jobqueue.worker.groups import ProcessGroup, exit_words
from jobqueue.worker.guard import Guard
from jobqueue.worker.supervisor import supervise
from tests.support.programs import is_stopped
from tests.support.waiting import HANG_S, eventually, eventually_sync
from tests.unit.worker.test_handlers import appears, dead, pid_in

NOBODY = 999_999_999
NONE = (subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)


def spawn(guard: Guard, code: str, *args: str) -> ProcessGroup:
    return ProcessGroup.spawn([sys.executable, "-c", code, *args], guard, streams=NONE)


def test_a_guard_that_a_handler_stopped_ends_with_its_worker(guard: Guard) -> None:
    guard.stand_by()
    process = guard._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    eventually_sync(lambda: is_stopped(process.pid))
    guard.close()
    assert process.returncode == 0


async def test_an_exit_code_is_seen_by_all_who_wait(guard: Guard) -> None:
    group = spawn(guard, "raise SystemExit(3)")
    assert set(await asyncio.gather(group.exited(), group.exited())) == {3}
    assert not group.alive
    assert await group.end() == 3


async def test_a_polite_group_is_not_killed(guard: Guard, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))\n"
        "open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "time.sleep(60)\n"
    )
    group = spawn(guard, code, str(path))
    await appears(path)
    assert await group.end(asyncio.sleep(30)) == 4


def test_exit_codes_have_words() -> None:
    assert exit_words(3) == "exited with code 3"
    assert exit_words(-9) == "died with signal SIGKILL"
    assert exit_words(-120) == "died with signal 120"


async def test_a_guard_kills_the_groups_of_a_worker_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    code = (
        "import asyncio, sys\n"
        "from subprocess import DEVNULL\n"
        "from jobqueue.worker.groups import ProcessGroup\n"
        "from jobqueue.worker.guard import Guard\n"
        "async def main():\n"
        "    guard, null = Guard(), (DEVNULL, DEVNULL, DEVNULL)\n"
        "    group = ProcessGroup.spawn(['sleep', '60'], guard, streams=null)\n"
        "    open(sys.argv[1], 'w').write(str(group.pid))\n"
        "    await group.exited()\n"
        "asyncio.run(main())\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", code, str(path)])  # noqa: ASYNC220 - fast
    pid = await appears(path)
    assert not dead(pid)
    worker.kill()
    worker.wait()
    eventually_sync(lambda: dead(pid), what="the end of the orphan")


async def test_a_guard_that_died_is_replaced_and_knows_everything(guard: Guard) -> None:
    first = spawn(guard, "import time; time.sleep(60)")
    assert guard._process is not None
    guard._process.kill()
    guard._process.wait()
    second = spawn(guard, "import time; time.sleep(60)")
    guard.close()
    assert await first.exited() == await second.exited() == -signal.SIGKILL
    for each in (first, second):
        each.process.wait()


async def test_a_guard_that_was_stopped_for_long_strikes_nothing_that_has_gone_meanwhile(
    guard: Guard,
) -> None:
    gone = spawn(guard, "import time; time.sleep(60)")
    assert guard._process is not None
    guard._process.send_signal(signal.SIGSTOP)
    for _ in range(10_000):  # 120 kB, more than its pipe holds
        guard.discard(NOBODY)
    guard.discard(gone.pid)  # as if its number were another's by now
    runs = spawn(guard, "import time; time.sleep(60)")
    guard.close()
    assert await runs.exited() == -signal.SIGKILL
    assert gone.alive
    gone.process.terminate()
    assert await gone.exited() == -signal.SIGTERM, "nobody else has struck it"
    for each in (gone, runs):
        each.process.wait()


@pytest_asyncio.fixture
async def pool(guard: Guard) -> AsyncIterator[Pool]:
    pool = Pool(ChildSetup(("tests.support.handlers",), Limits()), guard, ready=1)
    await pool.open()
    yield pool
    await pool.close()


async def test_a_child_that_died_while_idle_is_not_given_out(pool: Pool) -> None:
    child = await pool.take()
    pool.give(child)
    os.kill(child.group.pid, signal.SIGKILL)
    await child.group.exited()
    other = await pool.take()
    assert other is not child
    await pool.discard(other, None)


async def test_a_discarded_child_is_replaced_ahead_of_need(pool: Pool) -> None:
    await pool.discard(await pool.take(), None)

    async def ready() -> bool:
        return len(pool._idle) == 1

    await eventually(ready, what="the spare child")


async def test_children_end_with_the_pool(guard: Guard) -> None:
    pool = Pool(ChildSetup((), Limits()), guard, ready=2)
    await pool.open()
    pids = [child.group.pid for child in pool._idle]
    await pool.close()
    assert all(dead(pid) for pid in pids)


async def test_a_child_whose_handlers_cannot_be_imported_says_why(guard: Guard) -> None:
    pool = Pool(ChildSetup(("tests.support.exits",), Limits()), guard, ready=0)
    with pytest.raises(ChildFailed, match="SystemExit: 5"):
        await pool.take()


async def test_a_child_does_not_outlive_a_worker_that_closed_its_socket(pool: Pool) -> None:
    child = await pool.take()
    child._writer.close()
    assert await asyncio.wait_for(child.group.exited(), HANG_S) == 0
    with pytest.raises(ChildFailed, match="exited with code 0"):
        await child.ask(Frame({}))
    await pool.discard(child, None)


@pytest.mark.parametrize("answers", [0, 1])
def test_a_child_whose_worker_was_killed_ends_without_a_word(answers: int) -> None:
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-m", "jobqueue.worker.child", str(theirs.fileno()), str(os.getpid())]
    child = subprocess.Popen(
        argv, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    theirs.close()
    ours.sendall(ChildSetup((), Limits()).frame().numbered(1).pack())
    if answers:  # its answer stays unread, so that it meets a reset, else a broken pipe
        assert select.select([ours], [], [], 30.0)[0]
    ours.close()
    assert (*child.communicate(timeout=30), child.returncode) == (b"", b"", 0)


def member(tmp_path: Path, name: str, body: str, first: str = "") -> list[str]:
    """Return a program that counts its starts in a file and then does something."""
    mark = f"open({str(tmp_path / name)!r}, 'a').write('x')"
    code = f"import os, signal, sys, time\n{first}\n{mark}\n{body}"
    return [sys.executable, "-c", code]


AS_ASKED = f"sys.exit({supervisor.CHILD_AS_ASKED})"
LISTENS, SLEEPS = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))", "time.sleep(600)"


async def test_a_family_ends_when_all_members_have_ended(tmp_path: Path) -> None:
    commands = [member(tmp_path, "a", AS_ASKED), member(tmp_path, "b", AS_ASKED)]
    assert await asyncio.wait_for(supervise(commands, ShutdownSignals()), HANG_S) == 0
    assert (tmp_path / "a").read_text(encoding="ascii") == "x"


async def test_bad_settings_of_the_members_are_the_familys(tmp_path: Path) -> None:
    commands = [member(tmp_path, "a", f"sys.exit({supervisor.CHILD_BAD_SETTINGS})")]
    assert await asyncio.wait_for(supervise(commands, ShutdownSignals()), HANG_S) == 2


@pytest.mark.parametrize(("code", "of_the_family"), [(1, 1), (0, 0), (2, 2)])
async def test_a_crashed_member_is_replaced_and_the_others_run_on(
    tmp_path: Path, code: int, of_the_family: int
) -> None:
    asked = ShutdownSignals()
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"  # it ends by itself, not by the shutdown
    commands = [
        member(tmp_path, "a", f"sys.exit({code})", deaf),
        member(tmp_path, "b", SLEEPS, LISTENS),
    ]
    family = asyncio.create_task(supervise(commands, asked))

    def starts(name: str) -> int:
        path = tmp_path / name
        return len(path.read_text(encoding="ascii")) if path.exists() else 0

    async def again() -> bool:
        return starts("a") >= 2 and starts("b") >= 1

    await eventually(again, what="the second start of one, the first of the other")
    asked.shutdown.set()
    assert await asyncio.wait_for(family, HANG_S) == of_the_family
    assert starts("b") == 1


async def test_signals_reach_every_member(tmp_path: Path) -> None:
    asked = ShutdownSignals()
    drained = tmp_path / "drained"
    body = (
        f"signal.signal(signal.SIGUSR1, lambda *_: open({str(drained)!r}, 'w').write('1'))\n"
        "count = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: count.append(1))\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "while len(count) < 2: time.sleep(0.01)\n"
        "sys.exit(1)\n"
    )
    family = asyncio.create_task(supervise([member(tmp_path, "a", body)], asked))
    await appears(tmp_path / "pid")
    asked.drain.set()

    async def told() -> bool:
        return drained.exists()

    await eventually(told, what="the drain")
    asked.shutdown.set()
    asked.hurry.set()
    # Two signals of one kind may melt into one; a third is what an impatient operator sends.
    pid = pid_in(tmp_path / "pid")
    started = time.monotonic()
    while not family.done() and time.monotonic() - started < HANG_S:
        await asyncio.wait({family}, timeout=0.2)
        if not family.done() and not dead(pid):
            os.kill(pid, signal.SIGTERM)
    assert await family == 1


async def test_a_member_that_lived_long_is_replaced_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STEADY_S", -1.0)
    family = supervisor.Supervisor([member(tmp_path, "a", "sys.exit(1)")])
    place = family._members[0]
    for starts in range(1, 4):
        place.due_at = 0.0
        await family.turn()
        assert place.process is not None, starts
        place.process.wait()
        await family.turn()
        assert place.wait_s == 2 * supervisor.FIRST_WAIT_S
