"""Who has finished is as it ended, whatever comes while what it left is ended (R-3.12)."""

import asyncio
import os
import threading
from pathlib import Path

import psutil
import pytest

from jobqueue.worker import programs, sweep
from jobqueue.worker.attempt import Stop
from jobqueue.worker.executor import Executor
from jobqueue.worker.guard_process import MARK, end_strays
from tests.support.recording_leases import RecordingLeases, leased
from tests.support.waiting import HANG_S, eventually
from tests.unit.worker.test_handlers import appears, dead, pid_in
from tests.unit.worker.test_leftovers import shell, stray


class HeldLook:
    """A look for strays that takes until it is let go."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, *args: object) -> None:
        self.begun.set()
        assert self.may_end.wait(HANG_S)
        end_strays(*args)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pid"


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> HeldLook:
    monkeypatch.setattr(sweep, "LOOK_LIMIT_S", HANG_S)
    look = HeldLook()
    monkeypatch.setattr(sweep, "end_strays", look)
    return look


def payload_of(kind: str, path: Path) -> bytes:
    return shell(f"{stray(path)}; echo done") if kind == "shell" else os.fsencode(path)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("shell", b"done\n"),
        ("leaves-a-child", None),
        ("crashes-beside-a-daemon", "handler process died with signal SIGSEGV"),
    ],
)
async def test_a_cancel_while_strays_are_ended_changes_nothing(
    executor: Executor,
    leases: RecordingLeases,
    look: HeldLook,
    path: Path,
    kind: str,
    told: object,
) -> None:
    job = leased(kind, payload_of(kind, path), timeout_s=3600.0)
    running = asyncio.create_task(executor.execute(job))
    assert await asyncio.to_thread(look.begun.wait, HANG_S)
    executor.stop(job.lease, Stop.CANCELLED)
    look.may_end.set()
    await running
    settlement = await leases.settlement(job)
    assert (settlement.detail or settlement.result) == told
    assert dead(pid_in(path))


@pytest.mark.parametrize("reason", Stop)
async def test_a_stop_while_a_daemon_holds_the_output_open_changes_nothing_but_for_a_lost_lease(
    executor: Executor,
    leases: RecordingLeases,
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    reason: Stop,
) -> None:
    monkeypatch.setattr(programs, "_DRAIN_LIMIT_S", HANG_S)
    leader = path.with_name("leader")
    command = f"echo $$ > {leader}; {stray(path, f'env -u {MARK} setsid')}; echo done"
    job = leased("shell", shell(command), timeout_s=3600.0)
    running = asyncio.create_task(executor.execute(job))
    daemon, pid = await appears(path), await appears(leader)
    await eventually(lambda: _reaped(pid), what="the end of the command")
    assert executor.running == 1, "its output is waited for"
    executor.stop(job.lease, reason)
    os.kill(daemon, 9)
    await running
    if reason is Stop.LOST:
        assert job.lease not in leases.settled
    else:
        assert (await leases.settlement(job)).result == b"done\n"


async def _reaped(pid: int) -> bool:
    return not psutil.pid_exists(pid)
