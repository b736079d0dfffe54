"""The worker's end of its keeper process: how it is started, and the socket to it.

Not a subprocess of the loop: that of uvloop loses up to five descriptors each time it cannot be
started for want of one, and a keeper is tried again for as long as it takes.
"""

import asyncio
import socket
import subprocess
from collections.abc import Sequence
from typing import Self

from jobqueue.lease.messages import read_some

_LOOK_S = 0.01


class KeeperLink:
    """A keeper that was started, and is still to be waited for."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._ending = False

    @classmethod
    async def open(cls, argv: Sequence[str]) -> Self:
        """Start it with a socket as its stdin. Raises OSError when that cannot be."""
        process, ours = _started(argv)
        try:
            return cls(process, *await asyncio.open_unix_connection(sock=ours))
        except BaseException:
            process.kill()
            process.wait()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def read(self) -> bytes:
        """Return what it says next; nothing at its end."""
        return await read_some(self._reader)

    def write(self, data: bytes) -> None:
        """Send without waiting; nothing happens when it is gone or told to end."""
        if not self._ending and not self._writer.is_closing():
            self._writer.write(data)

    def tell_to_end(self) -> None:
        """Say that there is nothing more to come, by which it ends."""
        if not self._ending and not self._writer.is_closing():
            self._writer.write_eof()
        self._ending = True

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def ended(self) -> int:
        """Wait for its end; return the exit code, 0 when a handler took that from us."""
        while (code := self._process.poll()) is None:  # noqa: ASYNC110 - it is told by SIGCHLD, at best
            await asyncio.sleep(_LOOK_S)
        return code

    def close(self) -> None:
        """Hear nothing more."""
        self._writer.transport.abort()


def _started(argv: Sequence[str]) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """Return the process, and our end of the socket that is its stdin."""
    ours, theirs = socket.socketpair()
    try:
        # A signal to the worker's group is for the worker: while it drains it needs leases.
        process = subprocess.Popen(
            argv, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours
