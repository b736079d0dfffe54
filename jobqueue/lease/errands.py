"""Work that must be finished although whoever asked for it has gone.

A statement that takes or ends leases is not stopped half-way: nobody would know what it did.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Errands:
    """Runs coroutines as tasks of its own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T], abandoned: Callable[[T], None]) -> T:
        """Await ``work``; a cancelled caller does not stop it, and its result goes elsewhere."""
        task = self._begin(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: _pass_on(done, abandoned))
            raise

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Do ``work`` without a caller; its errors are its own business."""
        task = self._begin(work)
        task.add_done_callback(lambda done: _pass_on(done, lambda _: None))

    async def finish(self) -> None:
        """Wait until all work is done, also what it starts."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _pass_on(task: asyncio.Task[T], receiver: Callable[[T], None]) -> None:
    """Hand over a result; an error is looked at, so that nobody reports it as unseen."""
    if not task.cancelled() and task.exception() is None:
        receiver(task.result())
