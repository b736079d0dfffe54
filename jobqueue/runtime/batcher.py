"""Natural batching: while one flush is in flight, the next gathers. No timer.

An idle caller is served at once; under load batches grow as large as the flush is slow.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from jobqueue.runtime.tasks import start_detached

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Joins concurrent ``submit`` calls into flushes of at most ``max_size``, one at a time.

    The flush belongs to the batcher: a caller that is cancelled takes neither the others' items
    nor its own down with it. An error of a flush reaches every caller of that flush.
    """

    def __init__(
        self, flush: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], max_size: int
    ) -> None:
        """``flush`` answers each item, in order."""
        self._flush = flush
        self._max_size = max_size
        self._gathered: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Answer:
        """Return the flush's answer to this item. Raises what the flush raised."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._gathered.append((item, answer))
        if self._task is None:
            # The task begins after all callers of this turn of the loop have come.
            self._task = start_detached(self._flush_gathered(), "flush")
        return await answer

    async def drain(self) -> None:
        """Wait until everything gathered has its answer."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _flush_gathered(self) -> None:
        try:
            while self._gathered:
                batch = self._gathered[: self._max_size]
                del self._gathered[: self._max_size]
                await self._serve(batch)
        finally:
            self._task = None

    async def _serve(self, batch: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._flush([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - the callers of this flush hear it
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
