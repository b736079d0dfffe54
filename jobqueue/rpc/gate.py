"""Open while the server takes calls; closed for good when it drains (R-4.9)."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

from jobqueue.errors import Unavailable

T = TypeVar("T")


class Gate:
    """Refuses new calls and ends streams once closed; calls under way are left to finish.

    ``refused`` counts the calls that came too late.
    """

    def __init__(self) -> None:
        self._closed = asyncio.Event()
        self.refused = 0

    def close(self) -> None:
        """Take no more calls."""
        self._closed.set()

    async def wait_closed(self) -> None:
        """Return once no more calls are taken."""
        await self._closed.wait()

    def check(self) -> None:
        """Raise Unavailable when closed: another server, or a later call, will answer."""
        if self._closed.is_set():
            self.refused += 1
            raise Unavailable("the server is shutting down", reason="SHUTTING_DOWN")

    async def until_closed(
        self, stream: AsyncIterator[T], life_s: float | None = None
    ) -> AsyncIterator[T]:
        """Pass a stream on for ``life_s`` seconds; None: however long it lasts.

        Raises Unavailable when they are over, or the gate closes, before its end.
        """
        over = asyncio.create_task(self._closed_within(life_s))
        upcoming: asyncio.Task[T] | None = None
        try:
            while not over.done():
                upcoming = asyncio.create_task(_next(stream))
                await asyncio.wait({upcoming, over}, return_when=asyncio.FIRST_COMPLETED)
                if upcoming.done():
                    yield upcoming.result()
            self.check()
            raise Unavailable("the stream has lasted long enough; begin anew", reason="STREAM_OVER")
        except _Ended:
            return
        finally:
            await _end(over, upcoming)
            if isinstance(stream, AsyncGenerator):
                # It may hold what must be given back now, not when it is garbage.
                await stream.aclose()

    async def _closed_within(self, life_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(life_s):
                await self.wait_closed()


class _Ended(Exception):
    """The stream is over. StopAsyncIteration cannot be the result of a task."""


async def _next(stream: AsyncIterator[T]) -> T:
    try:
        return await anext(stream)
    except StopAsyncIteration as end:
        raise _Ended from end


async def _end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel what still waits; a stream's own clean-up runs inside its cancelled step.

    One that is done is looked at too: a caller who leaves at that moment never sees its error.
    """
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
