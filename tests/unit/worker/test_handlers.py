"""Every way to run a Python handler, and every way it may misbehave."""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Fate
from jobqueue.domain.state import Reason
from jobqueue.worker import executor as execution
from jobqueue.worker.attempt import Stop
from jobqueue.worker.executor import Executor
from jobqueue.worker.signals import ATTEMPTS_TIMED
from tests.support import handlers
from tests.support.recording_leases import RecordingLeases, leased
from tests.support.waiting import eventually
from tests.unit.worker.conftest import KILL_GRACE_S, Run

LIMITS = Limits()


def pid_in(path: Path) -> int:
    text = path.read_text(encoding="ascii") if path.exists() else ""
    return int(text) if text else 0


async def appears(path: Path) -> int:
    async def look() -> int:
        return pid_in(path)

    return await eventually(look, what=f"a pid in {path.name}")


def dead(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def timed() -> Iterator[list[str]]:
    """The queues of attempts whose time was told, in their order."""
    told: list[str] = []

    def hear(by_queue: Mapping[str, Sequence[float]]) -> None:
        told.extend(queue for queue, seconds in by_queue.items() for _ in seconds)

    stop = ATTEMPTS_TIMED.subscribe(hear)
    yield told
    stop()


async def is_in(queue: str, told: list[str]) -> bool:
    return queue in told


async def test_a_sync_handler_runs_in_another_process(run: Run) -> None:
    settlement = await run("facts", labels={"a": "b"}, timeout_s=30)
    facts = json.loads(settlement.result or b"")
    assert facts["pid"] != os.getpid()
    assert facts["labels"] == {"a": "b"}
    assert (facts["queue"], facts["type"], facts["attempt"]) == ("default", "facts", 1)
    assert 20 < facts["left"] <= 30
    assert facts["cancelled"] is False


@pytest.mark.usefixtures("_at_rest")
async def test_one_process_runs_many_jobs(run: Run) -> None:
    pids = {json.loads((await run("facts")).result or b"")["pid"] for _ in range(6)}
    assert len(pids) == 1


async def test_a_payload_and_a_result_of_a_mebibyte_pass_unchanged(run: Run) -> None:
    payload = os.urandom(1024 * 1024)
    assert (await run("echo", payload)).result == payload


@pytest.mark.parametrize("kind", ["returns", "async-returns"])
async def test_a_value_is_stored(run: Run, kind: str) -> None:
    assert (await run(kind, b"none")).result is None
    assert (await run(kind, b"bytes")).result == b"\x00\xff"
    huge = await run(kind, b"huge")
    assert huge.result_truncated
    assert len(huge.result or b"") == LIMITS.result_bytes


@pytest.mark.parametrize("value", [b"nan", b"deep"])
@pytest.mark.parametrize("kind", ["returns", "async-returns"])
async def test_a_value_that_cannot_be_stored_fails_the_attempt_and_no_other(
    run: Run, kind: str, value: bytes
) -> None:
    settlement = await run(kind, value)
    assert (settlement.fate, settlement.reason) == (Fate.WAIT, Reason.HANDLER_FAILED)
    assert (settlement.detail or "").startswith("the result is not JSON: ")
    assert (await run(kind, b"bytes")).fate is Fate.DONE


@pytest.mark.parametrize(
    "what",
    ["value", "notext", "nul", "surrogate", "huge", "exit", "interrupt", "base", "recursion"],
)
@pytest.mark.parametrize("kind", ["raises", "async-raises"])
async def test_whatever_a_handler_raises_is_a_failed_attempt(
    run: Run, kind: str, what: str
) -> None:
    settlement = await run(kind, what.encode())
    assert settlement.reason is Reason.HANDLER_FAILED
    assert settlement.detail
    assert len(settlement.detail.encode()) <= LIMITS.error_bytes
    assert (await run("echo", b"still here")).result == b"still here"


async def test_a_handler_that_cancels_its_task_harms_no_job_after_it_there(run: Run) -> None:
    assert (await run("async-cancels-itself")).fate is Fate.DONE
    assert (await run("async-waits-a-turn")).fate is Fate.DONE


async def test_a_cancellation_nobody_asked_for_is_a_failed_attempt(run: Run) -> None:
    settlement = await run("async-raises", b"cancelled")
    assert settlement.reason is Reason.HANDLER_FAILED
    assert "CancelledError" in (settlement.detail or "")


@pytest.mark.parametrize("kind", ["raises", "async-raises", "thread-raises"])
async def test_verdicts_reach_the_settlement(run: Run, kind: str) -> None:
    later = await run(kind, b"later")
    assert (later.reason, later.delay_s) == (Reason.RETRY_LATER, 7.5)
    refused = await run(kind, b"fail")
    assert (refused.fate, refused.dead_reason) == (Fate.DEAD, Reason.REFUSED)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("segfaults", "died with signal SIGSEGV"),
        ("exits-at-once", "exited with code 7"),
        ("killed", "died with signal SIGKILL"),
    ],
)
async def test_a_handler_that_takes_its_process_along_fails_alone(
    run: Run, kind: str, how: str
) -> None:
    settlement = await run(kind)
    assert settlement.reason is Reason.HANDLER_FAILED
    assert settlement.detail == f"handler process {how}"
    assert (await run("echo", b"next")).result == b"next"


async def test_prints_do_not_end_up_in_the_result(run: Run) -> None:
    assert (await run("prints")).result == b"printed"


@pytest.mark.parametrize("kill_grace_s", [600.0])
async def test_a_timeout_ends_a_sync_handler_by_sigterm(timed_out: Run, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    settlement = await timed_out("sleeps", path)
    assert (settlement.reason, settlement.detail) == (Reason.TIMED_OUT, "timed out after 3600 s")
    assert dead(pid_in(path))
    assert path.with_suffix(".end").read_text(encoding="ascii") == "True"


@pytest.mark.parametrize("kind", ["ignores-term", "leaves-grandchild"])
async def test_a_timeout_is_reported_only_when_the_whole_group_is_dead(
    timed_out: Run, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "pid"
    settlement = await timed_out(kind, path)
    assert settlement.reason is Reason.TIMED_OUT
    assert dead(pid_in(path))


@pytest.mark.parametrize("kind", ["async-sleeps", "sleeps"])
async def test_the_time_of_a_job_wins_over_the_handlers_and_bounds_its_renewal(
    run: Run, leases: RecordingLeases, tmp_path: Path, kind: str
) -> None:
    settlement = await run(kind, str(tmp_path / "note").encode(), timeout_s=0.1)
    assert settlement.detail == "timed out after 0.1 s"
    dead_by = 0.1 + KILL_GRACE_S + execution.DEATH_LIMIT_S
    assert leases.deadlines[settlement.lease] == pytest.approx(dead_by)


async def test_a_job_without_any_timeout_is_renewed_without_end(
    run: Run, leases: RecordingLeases
) -> None:
    settlement = await run("echo")
    assert settlement.lease not in leases.deadlines


async def test_a_cancelled_async_handler_may_clean_up(
    executor: Executor, leases: RecordingLeases, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    job = leased("async-sleeps", str(note).encode())
    running = asyncio.create_task(executor.execute(job))
    await begun(executor, job.lease)
    executor.stop(job.lease, Stop.CANCELLED)
    await running
    assert (await leases.settlement(job)).dead_reason is Reason.CANCELLED
    assert note.read_text(encoding="ascii") == "True"


async def test_a_cancel_ends_a_sync_handler(
    executor: Executor, leases: RecordingLeases, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    job = leased("sleeps", str(path).encode())
    running = asyncio.create_task(executor.execute(job))
    pid = await appears(path)
    executor.stop(job.lease, Stop.CANCELLED)
    await running
    assert (await leases.settlement(job)).dead_reason is Reason.CANCELLED
    assert dead(pid)


async def test_a_lost_lease_ends_the_handler_and_drops_the_outcome(
    executor: Executor, leases: RecordingLeases, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    job = leased("sleeps", str(path).encode())
    running = asyncio.create_task(executor.execute(job))
    pid = await appears(path)
    executor.stop(job.lease, Stop.LOST)
    await running
    assert job.lease not in leases.settled
    assert dead(pid)


async def test_how_long_a_handler_ran_is_told_though_its_lease_was_lost(
    executor: Executor, leases: RecordingLeases, timed: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    job = leased("sleeps", str(path).encode(), queue="lost")
    running = asyncio.create_task(executor.execute(job))
    await appears(path)
    executor.stop(job.lease, Stop.LOST)
    await running
    await executor.execute(leased("echo", queue="last"))
    await eventually(lambda: is_in("last", timed), what="the last one is told")
    assert timed == ["lost", "last"]
    assert job.lease not in leases.settled


async def test_a_release_hands_the_job_back_uncharged_once_it_is_dead(
    executor: Executor, leases: RecordingLeases, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    job = leased("ignores-term", str(path).encode())
    running = asyncio.create_task(executor.execute(job))
    pid = await appears(path)
    executor.release_all(hurry=True)
    await running
    settlement = await leases.settlement(job)
    assert (settlement.fate, settlement.reason) == (Fate.READY, Reason.RELEASED)
    assert settlement.counters.retries == 0
    assert dead(pid)


async def test_a_thread_handler_runs_in_this_process(run: Run) -> None:
    assert b"Thread" in ((await run("thread")).result or b"")


async def test_a_thread_that_listens_can_be_timed_out(run: Run, unfit: list[str]) -> None:
    settlement = await run("thread-polite", timeout_s=0.1)
    assert settlement.reason is Reason.TIMED_OUT
    assert not unfit


@pytest.mark.usefixtures("_release", "_no_patience")
@pytest.mark.parametrize("kind", ["async-deaf", "thread-deaf"])
async def test_a_handler_that_cannot_be_ended_makes_the_worker_unfit_and_reports_nothing(
    executor: Executor, leases: RecordingLeases, unfit: list[str], timed: list[str], kind: str
) -> None:
    job = leased(kind, timeout_s=0.1)
    running = asyncio.create_task(executor.execute(job))

    async def given_up() -> bool:
        return unfit == ["unfit"]

    await eventually(given_up, what="the worker is unfit")
    handlers.RELEASE.set()  # however late it ends after all, nothing is reported
    await running
    await executor.execute(leased("echo", queue="last"))
    await eventually(lambda: is_in("last", timed), what="the last one is told")
    assert timed == ["last"]
    assert job.lease not in leases.settled


async def test_a_job_nobody_can_run_waits_unfailed(run: Run) -> None:
    settlement = await run("unknown", running=False)
    assert (settlement.fate, settlement.reason) == (Fate.WAIT, Reason.NO_HANDLER)
    assert "unknown" in (settlement.detail or "")


async def test_an_outcome_that_cannot_be_written_is_dropped_not_raised(
    executor: Executor, leases: RecordingLeases
) -> None:
    leases.outage = True
    job, freed = leased("echo"), list[LeasedJob]()
    executor.on_freed(freed.extend)
    await executor.execute(job)

    async def is_free() -> bool:
        return freed == [job]

    await eventually(is_free, what="the slot is free again")
    assert not leases.settled


async def begun(executor: Executor, lease: object) -> None:
    async def look() -> bool:
        attempts = {k: v for k, v in executor._attempts.items() if k == lease}
        return any(a.timeout_s is None or a.context.deadline for a in attempts.values())

    await eventually(look, what="the handler's start")
