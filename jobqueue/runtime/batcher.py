"""Natural batching: while one flush is in flight, the next gathers, and waits for who is expected.

An idle caller is served at once. Callers who come again and again are joined in ever fewer and
larger flushes: without that each flush would take only the few who came during the last one, and
a busy machine would spend its time on flushes.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Generic, TypeVar

from jobqueue.runtime.tasks import start_detached

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_PATIENCE_FLUSHES, _MAX_PATIENCE_S = 4.0, 0.02
"""After its end, a flush's callers are waited for so many times as long as it took, at most."""


class Batcher(Generic[Item, Answer]):
    """Joins concurrent ``submit`` calls into flushes of at most ``max_size``, one at a time.

    As many callers as a flush answered and left waiting are expected to be there for the next
    one. It begins when they are, or four times as long after the last one's end as that took, or
    20 ms after it: whichever comes first. So nobody waits who comes alone.

    The flush belongs to the batcher: a caller that is cancelled takes no other's item down with it,
    and its own only where no flush has taken it yet. An error of a flush reaches every caller of
    that flush.
    """

    def __init__(
        self, flush: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], max_size: int
    ) -> None:
        """``flush`` answers each item, in order. How many wait for one is the callers' to bound."""
        self._flush = flush
        self._max_size = max_size
        self._gathered: dict[asyncio.Future[Answer], Item] = {}
        self._task: asyncio.Task[None] | None = None
        self._expected = 0
        self._expected_until = 0.0
        self._all_came = asyncio.Event()

    async def submit(self, item: Item) -> Answer:
        """Return the flush's answer to this item. Raises what the flush raised."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._gathered[answer] = item
        if self._task is None:
            # The task begins after all callers of this turn of the loop have come.
            self._task = start_detached(self._flush_gathered(), "flush")
        elif len(self._gathered) >= self._expected:
            self._all_came.set()
        try:
            return await answer
        except asyncio.CancelledError:
            self._leave(answer)
            raise

    def _leave(self, answer: "asyncio.Future[Answer]") -> None:
        """Forget the item of a caller who gave up; it came, and is waited for no more."""
        if self._gathered.pop(answer, None) is not None:
            self._expected -= 1
            if len(self._gathered) >= self._expected:
                self._all_came.set()

    async def drain(self) -> None:
        """Wait until everything gathered has its answer."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _flush_gathered(self) -> None:
        try:
            while self._gathered:
                await self._wait_for_expected()
                if batch := self._take():
                    begun = time.monotonic()
                    await self._serve(batch)
                    self._expect(len(batch) + len(self._gathered), time.monotonic() - begun)
        finally:
            self._task = None

    def _take(self) -> "Sequence[tuple[Item, asyncio.Future[Answer]]]":
        """Return what the next flush takes, without that of callers who just gave up."""
        taken = list(islice(self._gathered.items(), self._max_size))
        for answer, _ in taken:
            del self._gathered[answer]
        return [(item, answer) for answer, item in taken if not answer.done()]

    def _expect(self, callers: int, flush_s: float) -> None:
        self._expected = min(callers, self._max_size)
        patience_s = min(_PATIENCE_FLUSHES * flush_s, _MAX_PATIENCE_S)
        self._expected_until = time.monotonic() + patience_s

    async def _wait_for_expected(self) -> None:
        left_s = self._expected_until - time.monotonic()
        if left_s <= 0 or len(self._gathered) >= self._expected:
            return
        self._all_came.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._all_came.wait()

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
