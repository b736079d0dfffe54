"""Show that an outage of Kafka loses no event and costs no memory: `make show-kafka-outage`.

Ten thousand jobs run on a server and a worker of their own, as processes; for the middle third of
them the way to Kafka is cut. Then what Kafka has is compared with `job_events`.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.events.relay import CURSOR
from jobqueue.store.events import count_backlog
from jobqueue.store.pool import Pool, create_pool
from tests.support.kafka import Listener, running_broker
from tests.support.kafka_way import Way
from tests.support.programs import Program, ServerProgram, WorkerProgram
from tests.support.relays import all_arrive, recorded_events
from tests.support.waiting import eventually

PARTS = {"before the outage": 3_333, "Kafka cut off": 3_334, "Kafka is back": 3_333}
BATCH = 500
TOPIC = "jobqueue.events"
MIB = 2**20
DONE = "SELECT count(*) FROM jobqueue.job_events WHERE to_status = 'DONE'"
_PART_S = 600.0


class Show:
    """The pieces that run, and what is measured."""

    def __init__(self, pool: Pool, server: ServerProgram, way: Way, listener: Listener) -> None:
        self.pool = pool
        self.way = way
        self.listener = listener
        self._address = server.address
        self._process = psutil.Process(server.process.pid)
        self._rss: dict[str, list[float]] = {}

    async def part(self, name: str) -> None:
        """Run a part of the jobs to their end."""
        jobs = PARTS[name]
        print(f"{name}: {jobs:,} jobs …", flush=True)
        done = await self.pool.fetchval(DONE)
        spec = JobSpec("default", type="async-returns", payload=b"none")
        async with AsyncClient(self._address) as client:
            for begun in range(0, jobs, BATCH):
                size = min(BATCH, jobs - begun)
                await client.submit_many([spec] * size)
                await self._ended(name, done + begun + size)

    async def _ended(self, name: str, wanted: int) -> None:
        async def enough() -> bool:
            self.measure(name)
            return int(await self.pool.fetchval(DONE)) >= wanted

        await eventually(enough, within_s=_PART_S, what=f"{wanted} jobs DONE")

    def measure(self, name: str) -> None:
        """Note the server's memory."""
        rss = self._process.memory_info().rss / MIB
        self._rss.setdefault(name, []).append(rss)

    def memory(self) -> str:
        """Return a line for each part of the show."""
        lines = [
            f"  {name:<22} {min(rss):6.1f} … {max(rss):6.1f} MiB, at its end {rss[-1]:6.1f}"
            for name, rss in self._rss.items()
        ]
        return "\n".join(["server's memory (RSS):", *lines])


async def show() -> None:
    """Run it; an AssertionError says what was not as promised."""
    async with _running() as stage:
        await stage.part("before the outage")
        stage.way.cut()
        await stage.part("Kafka cut off")
        backlog = await count_backlog(stage.pool, CURSOR)
        assert stage.way.refused > 0, "nobody tried to reach Kafka"
        print(f"  {backlog.events:,} events wait, {stage.way.refused} connections were refused")
        stage.way.open()
        begun = time.monotonic()
        await stage.part("Kafka is back")
        await all_arrive(stage.pool, stage.listener, within_s=_PART_S)
        took = time.monotonic() - begun
        print(f"  all events had arrived {took:.1f} s after its return, those of this part too")
        stage.measure("Kafka is back")
        await _report(stage)


async def _report(stage: Show) -> None:
    heard, kept = len(stage.listener.heard), stage.listener.first_deliveries()
    last: dict[str, int] = {}
    for event in kept:
        assert event.sequence == last.get(event.job_id, 0) + 1, f"a gap in {event.job_id}"
        last[event.job_id] = event.sequence
    recorded = await recorded_events(stage.pool)
    assert {(e.event_id, e.job_id, e.sequence) for e in kept} == recorded
    print(f"jobs                     {len(last):,}")
    print(f"events in job_events     {len(recorded):,}")
    print(f"events in Kafka          {len(kept):,}, the same set; {heard - len(kept)} came again")
    print("order of each job        1, 2, 3 … without a gap, for all")
    print(stage.memory())


@asynccontextmanager
async def _running() -> AsyncIterator[Show]:
    with (
        TemporaryDirectory(prefix="jobqueue-show-") as made,
        running_broker() as broker,
        closing(Way(broker)) as way,
        EmbeddedPostgres(Path(made) / "pg", durable=False) as postgres,
    ):
        way.open()
        broker.create_topic(TOPIC)
        kafka = {"kafka_brokers": broker.address, "kafka_topic": TOPIC}
        programs: list[Program] = []
        try:
            server = ServerProgram(postgres.dsn, Path(made), **kafka)
            programs += [server.ready()]
            programs += [WorkerProgram(postgres.dsn, Path(made), "--concurrency", "50").ready()]
            pool = await create_pool(postgres.dsn, size=2)
            with closing(Listener(broker, TOPIC)) as listener:
                yield Show(pool, server, way, listener)
            await pool.close()
        finally:
            for program in programs:
                program.kill()


if __name__ == "__main__":
    sys.exit(asyncio.run(show()))
