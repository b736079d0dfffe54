"""pgqueuer, run in its own environment: `prepare`, `submit` or `work`, then a DSN."""

import asyncio
import sys

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, Job, QueueManager
from pgqueuer.queries import Queries

from bench.programs.talk import json_payload, submit_in_batches

_BATCH = 100
_CONSUMERS = _CONNECTIONS = 4
_ENTRYPOINT = "noop"


async def prepare(dsn: str) -> None:
    """Install, durable by default, with the autovacuum settings it recommends."""
    queries = Queries(AsyncpgDriver(await asyncpg.connect(dsn)))
    await queries.install()
    await queries.optimize_autovacuum()


async def submit(dsn: str) -> None:
    """Enqueue lists of jobs."""
    pool = await asyncpg.create_pool(dsn, min_size=1, max_size=_CONNECTIONS)
    queries = Queries(AsyncpgPoolDriver(pool))
    payload = json_payload().encode()

    async def enqueue(count: int) -> None:
        await queries.enqueue([_ENTRYPOINT] * count, [payload] * count, [0] * count)

    await submit_in_batches(enqueue)


async def work(dsn: str) -> None:
    """Run several consumers on one loop, as its own benchmark does."""
    async with asyncio.TaskGroup() as group:
        for _ in range(_CONSUMERS):
            group.create_task(_consume(dsn))


async def _consume(dsn: str) -> None:
    manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(dsn))))

    @manager.entrypoint(_ENTRYPOINT)
    async def noop(_job: Job) -> None:
        pass

    await manager.run(batch_size=_BATCH)


if __name__ == "__main__":
    uvloop.run({"prepare": prepare, "submit": submit, "work": work}[sys.argv[1]](sys.argv[2]))
