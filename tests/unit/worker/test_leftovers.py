"""What a handler leaves behind: nothing of it outlives its attempt, nor harms the next job."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jobqueue.domain.outcome import Fate
from jobqueue.domain.state import Reason
from jobqueue.worker import children
from jobqueue.worker.frames import Frame, receive
from jobqueue.worker.guard_process import MARK
from tests.support.hostile_handlers import STRAY
from tests.unit.worker.conftest import Run
from tests.unit.worker.test_handlers import dead, pid_in


def shell(command: str) -> bytes:
    return json.dumps({"command": command}).encode()


def stray(path: Path, start: str = "setsid") -> str:
    """Return a command that lets one loose, and waits until it has noted its id."""
    loose = f"{start} sh -c {shlex.quote(STRAY)} {path} &"
    return f"{loose} while [ ! -e {path} ]; do sleep 0.01; done"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pid"


async def pid_of(run: Run, kind: str = "process") -> int:
    return int((await run(kind)).result or b"")


@pytest.mark.parametrize("kind", ["leaves-a-child", "leaves-a-nameless-child", "leaves-a-daemon"])
async def test_what_left_the_group_of_a_handler_process_ends_with_the_attempt(
    run: Run, path: Path, kind: str
) -> None:
    assert (await run(kind, str(path).encode())).fate is Fate.DONE
    assert dead(pid_in(path))


async def test_it_ends_when_the_process_crashes_and_when_it_is_killed(
    run: Run, timed_out: Run, tmp_path: Path
) -> None:
    crashed, killed = tmp_path / "crashed", tmp_path / "killed"
    settlement = await run("crashes-beside-a-daemon", str(crashed).encode())
    assert settlement.detail == "handler process died with signal SIGSEGV"
    assert dead(pid_in(crashed))
    settlement = await timed_out("hangs-beside-a-daemon", killed)
    assert settlement.reason is Reason.TIMED_OUT
    assert dead(pid_in(killed))


async def test_what_left_the_group_of_a_command_ends_with_it(run: Run, path: Path) -> None:
    settlement = await run("shell", shell(f"{stray(path)}; echo done"))
    assert settlement.result == b"done\n"
    assert dead(pid_in(path))


async def test_a_nameless_one_ends_when_its_command_is_killed(timed_out: Run, path: Path) -> None:
    command = f"{stray(path, f'env -u {MARK} setsid')}; sleep 60"
    settlement = await timed_out("shell", path, shell(command))
    assert settlement.reason is Reason.TIMED_OUT
    assert dead(pid_in(path))


async def test_a_command_may_let_a_daemon_live_by_taking_its_mark(run: Run, path: Path) -> None:
    settlement = await run("shell", shell(f"{stray(path, f'env -u {MARK} setsid')}; echo done"))
    assert settlement.result == b"done\n"
    pid = pid_in(path)
    assert not dead(pid)
    os.kill(pid, 9)


async def test_a_copy_of_the_process_does_not_answer_for_it_nor_for_the_next_job(run: Run) -> None:
    assert (await run("forks", b"from the handler")).result == b"from the handler"
    assert (await run("echo", b"next")).result == b"next"
    assert (await run("echo", b"last")).result == b"last"


async def test_a_copy_that_does_not_end_is_ended(run: Run) -> None:
    copy = await pid_of(run, "forks-a-slow-copy")
    assert dead(copy)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_dead_orphans_are_let_go_beside_a_helper_whose_exit_code_is_not_taken() -> None:
    code = (
        "import os, subprocess\n"
        "from jobqueue.worker.leftovers import Leftovers, adopt_orphans\n"
        "def dies(pid): os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\n"
        "adopt_orphans()\n"
        "helper = subprocess.Popen(['sh', '-c', 'read -r _; exit 3'], stdin=subprocess.PIPE)\n"
        "leftovers = Leftovers()\n"
        "leaves = ['sh', '-c', 'sleep 600 >/dev/null & echo $!']\n"
        "orphan = int(subprocess.run(leaves, stdout=subprocess.PIPE).stdout)\n"
        "assert leftovers.clear(), 'it lives'\n"
        "os.kill(orphan, 9)\n"
        "helper.stdin.close()\n"
        "dies(orphan), dies(helper.pid)\n"
        "assert not leftovers.clear()\n"
        "assert not os.path.exists(f'/proc/{orphan}')\n"
        "assert helper.wait() == 3\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


@pytest.mark.usefixtures("_at_rest")
async def test_an_alarm_does_not_strike_the_next_job_of_the_process(run: Run) -> None:
    set_in = await pid_of(run, "sets-an-alarm")
    assert await pid_of(run, "waits-for-an-alarm") == set_in


@pytest.mark.usefixtures("_at_rest")
@pytest.mark.parametrize("kill_grace_s", [600.0])
async def test_a_blocked_sigterm_still_ends_the_next_job(
    run: Run, timed_out: Run, path: Path
) -> None:
    blocked_in = await pid_of(run, "blocks-sigterm")
    await timed_out("sleeps", path)
    assert pid_in(path) == blocked_in
    assert path.with_suffix(".end").exists(), "it ended by itself, not by SIGKILL"


@pytest.mark.usefixtures("_at_rest")
@pytest.mark.parametrize("kind", ["lowers-a-limit", "runs-out-of-memory", "closes-its-streams"])
async def test_a_process_that_lacks_something_since_runs_no_other_job(run: Run, kind: str) -> None:
    before = await pid_of(run)
    settlement = await run(kind)
    assert str(before) in (settlement.detail or (settlement.result or b"").decode())
    assert await pid_of(run) != before
    assert dead(before)


@pytest.mark.usefixtures("_at_rest")
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("closes-every-file", "handler process exited with code 1"),
        ("writes-into-every-file", "handler process broke the connection to its worker"),
        ("answers-too-deeply", "handler process broke the connection to its worker"),
    ],
)
async def test_a_handler_that_breaks_its_connection_fails_alone(
    run: Run, kind: str, how: str
) -> None:
    await fails_alone(run, kind, how)


@pytest.mark.usefixtures("_at_rest", "_no_patience")
async def test_a_handler_process_that_dies_beside_a_copy_of_itself_fails_alone(run: Run) -> None:
    await fails_alone(run, "dies-beside-a-copy", "handler process died with signal SIGKILL")


async def fails_alone(run: Run, kind: str, how: str) -> None:
    broken = await pid_of(run)
    settlement = await run(kind)
    assert (settlement.reason, settlement.detail) == (Reason.HANDLER_FAILED, how)
    assert dead(broken)
    assert (await run("echo", b"next")).result == b"next"


@pytest.mark.usefixtures("_at_rest")
async def test_a_process_whose_answer_says_nothing_runs_no_other_job(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await pid_of(run)

    async def receive_nothing(reader: asyncio.StreamReader, number: int) -> Frame:
        answer = await receive(reader, number)
        return answer if number == 1 else Frame({})  # the first is of one that gets ready

    monkeypatch.setattr(children, "receive", receive_nothing)
    assert (await run("echo")).reason is Reason.HANDLER_FAILED
    monkeypatch.undo()
    assert dead(before)
