"""procrastinate, run in its own environment: `prepare`, `submit` or `work`, then a DSN."""

import logging
import sys

import procrastinate
import uvloop

from bench.programs.talk import filler, submit_in_batches

_CONCURRENCY = 20
_QUEUE = "default"


def _app(dsn: str) -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=1, max_size=_CONCURRENCY)
    app = procrastinate.App(connector=connector)

    @app.task(name="noop", queue=_QUEUE)
    async def noop(p: str) -> None:
        pass

    return app


async def prepare(dsn: str) -> None:
    """Apply the schema."""
    app = _app(dsn)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def submit(dsn: str) -> None:
    """Defer in batches."""
    app = _app(dsn)
    payload = filler()
    async with app.open_async():
        task = app.tasks["noop"]

        async def defer(count: int) -> None:
            await task.batch_defer_async(*({"p": payload} for _ in range(count)))

        await submit_in_batches(defer)


async def work(dsn: str) -> None:
    """Run one worker."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = _app(dsn)
    async with app.open_async():
        await app.run_worker_async(
            queues=[_QUEUE], concurrency=_CONCURRENCY, install_signal_handlers=False
        )


if __name__ == "__main__":
    uvloop.run({"prepare": prepare, "submit": submit, "work": work}[sys.argv[1]](sys.argv[2]))
