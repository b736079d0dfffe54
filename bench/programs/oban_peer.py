"""oban for Python, run in its own environment: `prepare`, `submit` or `work`, then a DSN."""

import asyncio
import sys

import uvloop
from oban import Oban, worker
from oban.job import Job
from oban.schema import install_sql
from psycopg_pool import AsyncConnectionPool

from bench.programs.talk import filler, submit_in_batches

_LIMIT = 1000
_QUEUE = "default"


@worker(queue=_QUEUE)
class Noop:
    """Does nothing; the decorator adds `new`."""

    async def process(self, _job: Job) -> None:
        """Do nothing."""


def _pool(dsn: str) -> AsyncConnectionPool:
    return AsyncConnectionPool(dsn, min_size=1, max_size=10, open=False)


async def prepare(dsn: str) -> None:
    """Install its tables."""
    async with _pool(dsn) as pool, pool.connection() as connection:
        await connection.execute(install_sql())


async def submit(dsn: str) -> None:
    """Insert in batches."""
    async with _pool(dsn) as pool:
        client = Oban(pool=pool)
        new = Noop.new  # type: ignore[attr-defined] # by the decorator
        arguments = {"p": filler()}

        async def enqueue(count: int) -> None:
            await client.enqueue_many([new(arguments) for _ in range(count)])

        await submit_in_batches(enqueue)


async def work(dsn: str) -> None:
    """Run one node."""
    async with _pool(dsn) as pool, Oban(pool=pool, queues={_QUEUE: _LIMIT}):
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run({"prepare": prepare, "submit": submit, "work": work}[sys.argv[1]](sys.argv[2]))
