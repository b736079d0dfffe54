"""Loops of the reaper, run as servers run them."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from jobqueue.reaper.duty import Duty
from jobqueue.runtime.service import Group, Service
from jobqueue.store.pool import Pool


@asynccontextmanager
async def running(services: Sequence[Service]) -> AsyncIterator[None]:
    group = Group(services)
    await group.start_all()
    try:
        yield
    finally:
        await group.stop_all()


def twice(make: Callable[[Pool], Duty], pool: Pool) -> list[Duty]:
    """Return the duty as two servers have it."""
    return [make(pool), make(pool)]
