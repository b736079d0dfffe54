"""awa, run in its own environment: `prepare`, `submit` or `work`, then a DSN."""

import asyncio
import sys
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import awa

from bench.programs.talk import filler, submit_in_batches

_WORKERS = 1024
_POLL_MS = 5
_QUEUE = "default"
_SCHEMA = "awa"


@dataclass
class Noop:
    """Arguments of a job that does nothing."""

    p: str


def _client(dsn: str) -> awa.AsyncClient:
    # Its driver wants a host, and takes the socket's folder from the query all the same.
    url = urlsplit(dsn)
    return awa.AsyncClient(urlunsplit(url._replace(netloc=f"{url.username}@localhost")))


async def prepare(dsn: str) -> None:
    """Migrate, and choose the storage that is not deprecated."""
    client = _client(dsn)
    await client.migrate()
    await client.install_queue_storage(schema=_SCHEMA)


async def submit(dsn: str) -> None:
    """Enqueue by COPY."""
    client = _client(dsn)
    job = Noop(filler())
    await submit_in_batches(lambda count: client.enqueue_many_copy([job] * count, queue=_QUEUE))


async def work(dsn: str) -> None:
    """Run one worker with a Python handler."""
    client = _client(dsn)

    @client.task(Noop, queue=_QUEUE)
    async def noop(_job: object) -> None:
        pass

    await client.start(
        [(_QUEUE, _WORKERS)], poll_interval_ms=_POLL_MS, queue_storage_schema=_SCHEMA
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run({"prepare": prepare, "submit": submit, "work": work}[sys.argv[1]](sys.argv[2]))
