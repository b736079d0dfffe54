"""Tasks that work for many callers."""

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def own_task() -> asyncio.Task[None]:
    """Return the task in which this is called. It must be one that returns nothing."""
    task = asyncio.current_task()
    assert task is not None, "only a coroutine of a task may ask"
    return task


def start_detached(work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    """Start a task that carries nobody's context.

    One that was started on behalf of the first of many callers would write the names and the
    trace of that one into the lines about all.
    """
    return asyncio.create_task(work, name=name, context=Context())


async def seen_through(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` to its end. Who is cancelled meanwhile is told so when it has ended."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
