"""An event loop in a thread: for what must go on while a test waits, or blocks its own loop."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_DO_WITHIN_S = 30.0


class OwnLoop:
    """Runs until ``end``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there to its end, from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_DO_WITHIN_S)

    def end(self) -> None:
        """Wait for what still runs there, and end it."""
        self.do(_others_end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _others_end() -> None:
    own = asyncio.current_task()
    await asyncio.gather(*asyncio.all_tasks() - {own}, return_exceptions=True)
