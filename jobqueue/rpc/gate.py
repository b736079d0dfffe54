"""Open while the server takes calls; closed for good when it drains (R-4.9)."""

import asyncio
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

    async def until_closed(self, stream: AsyncIterator[T]) -> AsyncIterator[T]:
        """Pass a stream on. Raises Unavailable when the gate closes before its end."""
        closed = asyncio.create_task(self.wait_closed())
        upcoming: asyncio.Task[T] | None = None
        try:
            while not closed.done():
                upcoming = asyncio.create_task(_next(stream))
                await asyncio.wait({upcoming, closed}, return_when=asyncio.FIRST_COMPLETED)
                if upcoming.done():
                    yield upcoming.result()
            self.check()
        except _Ended:
            return
        finally:
            await _end(closed, upcoming)
            if isinstance(stream, AsyncGenerator):
                # It may hold what must be given back now, not when it is garbage.
                await stream.aclose()


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
