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
    """Wait until nothing is left: a task that accepts a connection makes one that serves it."""
    own = asyncio.current_task()
    while others := asyncio.all_tasks() - {own}:
        await asyncio.gather(*others, return_exceptions=True)


async def stop_listening(server: asyncio.Server) -> None:
    """Close a server once those who are at its door have come in.

    A connection that was accepted, but is not served yet when ``Server.close`` comes, is never
    closed (Python 3.11: its transport fails to attach itself). Tasks that serve such connections
    begin before ``sleep(0)`` returns.
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock.fileno())
    await asyncio.sleep(0)
    server.close()
