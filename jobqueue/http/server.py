"""One HTTP port on the loop of the program, which alone handles signals."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from jobqueue.runtime.ports import listen

_STOP_S = 2.0


class _Server(uvicorn.Server):
    """Leaves the signals to the program: it ends its doors in its own order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves an application on all interfaces. ``start``, then ``stop``."""

    def __init__(self, app: Starlette, setting: str, port: int) -> None:
        """``setting`` is where ``port`` comes from; 0: any free one."""
        self._setting = setting
        self._port = port
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",  # its start and end are ours to tell
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket | None = None) -> int:
        """Begin to serve and return the port. Raises Unavailable when it is taken.

        The port listens when this returns; who connects at once waits for a turn of the loop. It
        is that of ``listening`` where a socket is given, which is closed at the end.
        """
        listening = listening or listen(self._setting, self._port)
        self._task = asyncio.create_task(self._server.serve([listening]), name="http")
        return int(listening.getsockname()[1])

    async def stop(self) -> None:
        """End within 2 s."""
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task}, timeout=_STOP_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
