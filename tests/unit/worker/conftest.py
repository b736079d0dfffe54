"""One executor over recorded leases, for handlers of every kind."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Settlement
from jobqueue.worker.attempt import Stop
from jobqueue.worker.claiming import Claiming, Room
from jobqueue.worker.executor import Executor, RunRules
from jobqueue.worker.guard import Guard
from jobqueue.worker.registry import Registry, load_handlers
from jobqueue.worker.runners import Runners
from tests.support import handlers
from tests.support.recording_leases import RecordingLeases, leased
from tests.support.waiting import HANG_S, eventually

KILL_GRACE_S = 0.5

PATIENCE: Mapping[str, object] = {
    "executor.DEATH_LIMIT_S": HANG_S,
    "sweep.HASTY_LOOK_S": (HANG_S / 5, HANG_S / 5),
    "guard_process._STRAYS_LIMIT_S": HANG_S / 5,
    "children._EXIT_LIMIT_S": HANG_S,
}
"""What a worker gives the death of others, as far as this process waits for it: only against a hang
here. The limits stay in the order of those they replace, and below ``sweep.LOOK_LIMIT_S``."""


Run = Callable[..., Awaitable[Settlement]]


@pytest.fixture(scope="session", autouse=True)
def _patient_guards() -> Iterator[None]:
    """Wait for the end of every guard, also after the last test: a warning is an error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jobqueue.worker.guard._END_LIMIT_S", HANG_S)
        yield


@pytest.fixture(autouse=True)
def _patience(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if "_no_patience" not in request.fixturenames:
            for name, value in PATIENCE.items():
                patch.setattr(f"jobqueue.worker.{name}", value)
        yield


@pytest.fixture
def _no_patience() -> None:
    """Leave the limits as they are, for a test that waits for one."""


@pytest.fixture
def guard() -> Iterator[Guard]:
    guard = Guard()
    yield guard
    guard.close()


@pytest.fixture(scope="session")
def registry() -> Registry:
    commands = {
        "cat": ("cat",),
        "reads-nothing": ("sleep", "600"),
        "environment": ("env",),
        "missing": ("/no/such/program",),
        "flood": ("sh", "-c", "yes | head -c 500000000; yes | head -c 500000000 >&2"),
        "flood-of-one-line": (
            "sh",
            "-c",
            "head -c 200000000 /dev/zero; head -c 200000000 /dev/zero >&2",
        ),
        "fails": ("sh", "-c", "echo out; echo 'bad \\377 luck' >&2; exit 3"),
        "ignores-input": ("true",),
        "stubborn": ("sh", "-c", 'trap "" TERM; echo $$ > "$0"; sleep 60 & wait; wait; sleep 60'),
    }
    return load_handlers(
        ["tests.support.handlers", "tests.support.hostile_handlers"], commands, allow_shell=True
    )


@pytest_asyncio.fixture(scope="session")
async def runners(registry: Registry) -> AsyncIterator[Runners]:
    runners = Runners(registry, RunRules().limits, concurrency=2)
    await runners.open()
    yield runners
    await runners.close()


@pytest_asyncio.fixture
async def _at_rest(runners: Runners) -> None:
    """Let no handler process be about to get ready: a second job has the process of the first."""
    await asyncio.gather(*runners._pool._refills)


@pytest.fixture
def leases() -> RecordingLeases:
    return RecordingLeases()


@pytest.fixture
def unfit() -> list[str]:
    return []


@pytest.fixture
def kill_grace_s() -> float:
    return KILL_GRACE_S


@pytest.fixture
def executor(
    leases: RecordingLeases,
    registry: Registry,
    runners: Runners,
    unfit: list[str],
    kill_grace_s: float,
) -> Executor:
    rules = RunRules(kill_grace_s=kill_grace_s)
    return Executor(leases, registry, runners, rules, lambda _job: unfit.append("unfit"))


@pytest.fixture
def run(executor: Executor, leases: RecordingLeases) -> Run:
    """Run one job to its settlement."""

    async def run(job_type: str | None, payload: bytes = b"", **fields: object) -> Settlement:
        job: LeasedJob = leased(job_type, payload, **fields)  # type: ignore[arg-type]
        await executor.execute(job)
        return await leases.settlement(job)

    return run


@pytest.fixture
def timed_out(executor: Executor, leases: RecordingLeases) -> Run:
    """Run one job until it has noted a process in a file, and let its time be over then.

    However slow the machine is, it had the time to get there.
    """

    async def timed_out(kind: str, path: Path, payload: bytes | None = None) -> Settlement:
        job = leased(kind, os.fsencode(path) if payload is None else payload, timeout_s=3600.0)
        running = asyncio.create_task(executor.execute(job))
        await eventually(lambda: _noted(path), what=f"a pid in {path.name}")
        executor.stop(job.lease, Stop.TIMED_OUT)
        await running
        return await leases.settlement(job)

    return timed_out


async def _noted(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


@pytest.fixture
def _release() -> Iterator[None]:
    """Let deaf handlers go at the end of the test."""
    yield
    handlers.RELEASE.set()


@pytest.fixture(autouse=True)
def _hold(request: pytest.FixtureRequest) -> None:
    if "_release" in request.fixturenames:
        handlers.RELEASE.clear()


@dataclass
class Loop:
    """A claim loop, and what it is told."""

    claiming: Claiming
    leases: RecordingLeases

    async def settled(self, *jobs: LeasedJob) -> None:
        for job in jobs:
            await self.leases.settlement(job)

    async def held(self, count: int) -> None:
        async def look() -> bool:
            return len(self.claiming._busy) == count

        await eventually(look, what=f"{count} jobs held")

    async def unsettled(self, count: int) -> None:
        async def look() -> bool:
            return len(self.leases.unsettled) == count

        await eventually(look, what=f"{count} settlements under way")


Make = Callable[[Room], Loop]


@pytest_asyncio.fixture
async def loop_of(leases: RecordingLeases, executor: Executor) -> AsyncIterator[Make]:
    made: list[Claiming] = []

    def make(room: Room) -> Loop:
        made.append(Claiming(leases, executor, executor._registry, room))
        return Loop(made[-1], leases)

    yield make
    executor.release_all(hurry=True)
    for claiming in made:
        await claiming.stop()
