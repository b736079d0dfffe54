"""Let real workers come and go by the scaler's answers: empty, busy, draining, empty again.

Usage: ``python -m tools.scaler_cycle``, or ``make show-scaler``. A client that calls as KEDA does
asks a `jq-server`, a model of KEDA and HPA makes replicas of the answers, and for each replica a
`jq-worker` is started, or ended by SIGTERM, whether it is busy or not. Their times are shortened.
Exit code 1 when there was no replica while a job ran, when the replicas did not go from none to
the maximum and back, or when a job did not end at its first attempt.
"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import grpc

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.embedded.server import EmbeddedPostgres
from tests.support.autoscaler import Autoscaler, ScaledObject
from tests.support.fleet import ENDED, NOT_DONE_ONCE
from tests.support.keda import Keda
from tests.support.programs import ServerProgram, WorkerProgram
from tests.support.redis import free_port
from tests.support.waiting import eventually

QUEUE = "default"
_TICK_S = 0.5
_STARTS = "SELECT count(*) FROM jobqueue.job_event_log WHERE to_status = 'RUNNING'"
_WORK = """
    SELECT (SELECT count(*) FROM jobqueue.ready) AS waiting,
           (SELECT count(*) FROM jobqueue.leases WHERE running) AS running
"""


@dataclass(frozen=True)
class Cycle:
    """How much work there is, and how it is scaled on. One job runs for much longer than others."""

    jobs: int = 160
    job_s: float = 1.0
    long_job_s: float = 25.0
    slots: int = 4
    max_replicas: int = 5
    cooldown_s: float = 5.0
    stabilisation_s: float = 5.0
    limit_s: float = 150.0

    def specs(self) -> list[JobSpec]:
        """Return the jobs, the long one first."""
        seconds = [self.long_job_s, *[self.job_s] * (self.jobs - 1)]
        return [JobSpec(QUEUE, str(each).encode(), type="nap") for each in seconds]

    def scaled(self, target: float) -> ScaledObject:
        """Return the settings of the autoscaler."""
        return ScaledObject(
            target,
            max_replicas=self.max_replicas,
            cooldown_s=self.cooldown_s,
            stabilisation_s=self.stabilisation_s,
        )


@dataclass(frozen=True)
class Sample:
    """One moment: what was told, what came of it, and what the database knew right after."""

    at_s: float
    told: float
    active: bool
    replicas: int
    processes: int
    waiting: int
    running: int


@dataclass
class Fleet:
    """The workers. ``become`` starts and ends some; those that end may take their time."""

    dsn: str
    folder: Path
    slots: int
    serving: list[WorkerProgram] = field(default_factory=list)
    ending: list[WorkerProgram] = field(default_factory=list)

    def become(self, replicas: int) -> None:
        """Have so many."""
        flags = ("--handlers", "tests.support.fleet_handlers", "--concurrency", str(self.slots))
        while len(self.serving) < replicas:
            worker = WorkerProgram(self.dsn, self.folder, *flags, "--log-level", "info")
            self.serving.append(worker)
        while len(self.serving) > replicas:
            worker = self.serving.pop()
            worker.send(signal.SIGTERM)
            self.ending.append(worker)

    @property
    def processes(self) -> int:
        """How many live, those that end among them."""
        return sum(each.process.poll() is None for each in (*self.serving, *self.ending))

    async def exit_codes(self) -> set[int]:
        """Wait for those that were to end."""
        return {await asyncio.to_thread(worker.ended) for worker in self.ending}

    def kill(self) -> None:
        """Leave none."""
        for worker in (*self.serving, *self.ending):
            worker.kill()


@dataclass
class Drive:
    """One run of the cycle."""

    cycle: Cycle
    keda: Keda
    fleet: Fleet
    conn: asyncpg.Connection
    metric: str
    scaler: Autoscaler
    begun: float = field(default_factory=time.monotonic)
    samples: list[Sample] = field(default_factory=list)

    async def run(self, client: AsyncClient) -> None:
        """Go once round."""
        hearing = asyncio.create_task(self._hear())
        try:
            await self._steps(2)
            await client.submit_many(self.cycle.specs())
            async with asyncio.timeout(self.cycle.limit_s):
                while self.scaler.replicas or not await self._all_ended():
                    await self._steps(1)
                await self._steps(2)
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})

    async def _hear(self) -> None:
        """Be woken by the stream, as a trigger of the type external-push is."""
        async for active in self.keda.push():
            self.fleet.become(self.scaler.heard(time.monotonic(), active=active))

    async def _steps(self, count: int) -> None:
        for _ in range(count):
            await self._step()
            await asyncio.sleep(_TICK_S)

    async def _step(self) -> None:
        told, active = await self.keda.poll(self.metric)
        now = time.monotonic()
        self.scaler.heard(now, active=active)
        replicas = self.scaler.sync(now, told)
        self.fleet.become(replicas)
        work = await self.conn.fetchrow(_WORK)
        assert work is not None
        self.samples.append(
            Sample(now - self.begun, told, active, replicas, self.fleet.processes, *work)
        )

    async def _all_ended(self) -> bool:
        return bool(await self.conn.fetchval(ENDED) == self.cycle.jobs)

    async def faults(self) -> list[str]:
        """Return what should not have been."""
        found = list(_faults(self.samples, self.cycle.max_replicas))
        if await self.fleet.exit_codes() != {0}:
            found.append("a worker did not end well")
        if await self.conn.fetch(NOT_DONE_ONCE):
            found.append("a job is not DONE, or was so twice")
        if await self.conn.fetchval(_STARTS) != self.cycle.jobs:
            found.append("a job was started again")
        return found


def _faults(samples: Sequence[Sample], most: int) -> Iterator[str]:
    replicas = [sample.replicas for sample in samples]
    if any(sample.running and not sample.replicas for sample in samples):
        yield "there was no replica while a job ran"
    if (replicas[0], max(replicas), replicas[-1]) != (0, most, 0):
        yield f"the replicas did not go from none to {most} and back"
    if not any(0 < sample.replicas < most and sample.running for sample in samples):
        yield "no replica went while a job ran on"


@asynccontextmanager
async def driving(dsn: str, folder: Path, cycle: Cycle) -> AsyncIterator[Drive]:
    """Run a server on ``dsn``, go round, and yield what was seen while all is still there."""
    port = free_port()
    server = ServerProgram(dsn, folder, scaler_port=port)
    fleet = Fleet(dsn, folder, cycle.slots)
    metadata = {"queues": QUEUE, "targetPerReplica": str(cycle.slots)}
    try:
        await asyncio.to_thread(server.ready)
        conn = await asyncpg.connect(dsn)
        async with Keda([port], metadata) as keda, AsyncClient(server.address) as client:
            spec = await keda.spec()
            await eventually(lambda: _answers(keda, spec.metric), what="the first figures")
            scaler = Autoscaler(cycle.scaled(spec.target))
            drive = Drive(cycle, keda, fleet, conn, spec.metric, scaler)
            await drive.run(client)
            yield drive
        await conn.close()
    finally:
        fleet.kill()
        server.kill()


async def _answers(keda: Keda, metric: str) -> bool:
    try:
        await keda.poll(metric)
    except grpc.aio.AioRpcError:
        return False
    return True


def changes(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Yield the samples at which something is another than before."""
    before: Sample | None = None
    for sample in samples:
        if before is None or replace(sample, at_s=before.at_s) != before:
            yield sample
        before = sample


def report(samples: Sequence[Sample]) -> None:
    """Print the replicas over time."""
    print("   time    told  active  replicas          processes  waiting  running")
    for sample in changes(samples):
        bar = "█" * sample.replicas
        print(
            f"{sample.at_s:6.1f} s {sample.told:6.0f}  {'yes' if sample.active else 'no':<6}"
            f"  {sample.replicas} {bar:<16}{sample.processes:>9}{sample.waiting:>9}"
            f"{sample.running:>9}"
        )


async def show(cycle: Cycle) -> int:
    """Run and print it; return the exit code."""
    with TemporaryDirectory(prefix="jobqueue-show-") as made:
        logs = Path(made) / "logs"
        logs.mkdir()
        with EmbeddedPostgres(Path(made) / "pg", durable=False) as postgres:
            async with driving(postgres.dsn, logs, cycle) as drive:
                report(drive.samples)
                faults = await drive.faults()
    print("\n".join(faults) if faults else "never zero while a job ran; each job ran once")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(show(Cycle())))
