"""The pipes to and from a program, watched by the event loop and closed by us alone.

Not by the loop's own transports: those of uvloop close the number of a pipe twice, and the second
time it may be another's that a thread has opened meanwhile, a file or what tells of a program's
end (https://github.com/MagicStack/uvloop/issues/763).
"""

import asyncio
import os
from collections.abc import Callable
from typing import IO

from jobqueue.runtime.copies import close_in_copies

_PIECE = 65_536
"""What a pipe holds unless it is asked to hold more (pipe(7))."""


class Inflow:
    """Hands on what comes out of a pipe, piece by piece; ``ended`` is done at its end."""

    def __init__(self, pipe: IO[bytes], take: Callable[[bytes], None]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pipe = pipe
        self._take = take
        os.set_blocking(pipe.fileno(), False)
        self.ended.get_loop().add_reader(pipe.fileno(), self._read)

    def close(self) -> None:
        """Read no more."""
        if not self._pipe.closed:
            self.ended.get_loop().remove_reader(self._pipe.fileno())
            self._pipe.close()
        if not self.ended.done():
            self.ended.set_result(None)

    def _read(self) -> None:
        try:
            data = os.read(self._pipe.fileno(), _PIECE)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self.close()


class Outflow:
    """Writes ``data`` into a pipe and closes it. A reader that leaves early misses the rest.

    It meets its end whatever copies of this process there are.
    """

    def __init__(self, pipe: IO[bytes], data: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._rest = memoryview(data)
        close_in_copies(pipe)
        os.set_blocking(pipe.fileno(), False)
        self._write()
        if not pipe.closed:
            self._loop.add_writer(pipe.fileno(), self._write)

    def close(self) -> None:
        """Write no more."""
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()

    def _write(self) -> None:
        try:
            written = os.write(self._pipe.fileno(), self._rest[:_PIECE])
        except BlockingIOError:
            return
        except BrokenPipeError:
            written = len(self._rest)
        self._rest = self._rest[written:]
        if not self._rest:
            self.close()
