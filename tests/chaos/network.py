"""A stretch of network that a test rules: it may be slow, one-way, half-open or cut."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from enum import Enum

from tests.support.own_loop import OwnLoop, stop_listening

Far = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Opens a connection to what lies behind."""

_CHUNK = 65_536


class Weather(Enum):
    """What becomes of bytes on their way."""

    FAIR = "fair"
    SLOW = "slow"  # each piece takes ``Link.delay_s`` longer
    MUTE = "mute"  # what goes there arrives, what comes back does not
    STILL = "still"  # nothing arrives in either direction, and nobody is told: half-open
    CUT = "cut"  # connections are reset and new ones turned away


class _Crossing:
    """One connection and its continuation."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.near, self.far = near, far
        self.robbed = False

    def close(self) -> None:
        self.near.close()
        self.far.close()

    def end(self) -> None:
        _reset(self.near)
        _reset(self.far)


class Link:
    """A TCP port in front of something; it has a loop of its own, which no test holds up.

    ``hit`` counts what the weather did to bytes and connections: a fault that nobody met is none.
    """

    def __init__(self, far: Far, *, port: int = 0, delay_s: float = 0.05) -> None:
        self.hit = 0
        self.delay_s = delay_s
        self._far = far
        self._weather = Weather.FAIR
        self._crossings: set[_Crossing] = set()
        self._clear = asyncio.Event()
        self._clear.set()
        self._loop = OwnLoop()
        # A port that is given may be held for us (`tests.support.kafka`).
        opening = asyncio.start_server(self._serve, "127.0.0.1", port, reuse_port=bool(port))
        self._server: asyncio.Server = self._loop.do(opening)
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        """``HOST:PORT`` of its near end."""
        return f"127.0.0.1:{self.port}"

    @property
    def busy(self) -> int:
        """How many connections lead through it."""
        return len(self._crossings)

    def turn(self, weather: Weather) -> None:
        """Change the weather. What a connection lost on the way it cannot go on without."""
        self._loop.do(self._turn(weather))

    def close(self) -> None:
        """End it."""
        self._loop.do(self._close())
        self._loop.end()

    async def _turn(self, weather: Weather) -> None:
        self._weather = weather
        if weather is Weather.STILL:
            self._clear.clear()
        else:
            self._clear.set()
        for crossing in list(self._crossings):
            if weather is Weather.CUT or crossing.robbed:
                self.hit += weather is Weather.CUT
                crossing.end()

    async def _close(self) -> None:
        await stop_listening(self._server)
        await self._turn(Weather.CUT)

    async def _serve(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut():
            _reset(writer)
            return
        try:
            far, far_writer = await self._far()
        except OSError:  # nobody is there now
            writer.transport.abort()
            return
        crossing = _Crossing(writer, far_writer)
        if self._is_cut():  # since it was begun
            crossing.end()
            return
        self._crossings.add(crossing)
        await asyncio.gather(
            self._carry(near, far_writer, crossing, back=False),
            self._carry(far, writer, crossing, back=True),
        )
        self._crossings.discard(crossing)
        crossing.close()

    def _is_cut(self) -> bool:
        self.hit += self._weather is Weather.CUT
        return self._weather is Weather.CUT

    async def _carry(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        crossing: _Crossing,
        *,
        back: bool,
    ) -> None:
        """Carry bytes, and then how they ended: a farewell is one on the other side, too."""
        told_so = False
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                if await self._arrives(crossing, back=back):
                    target.write(data)
                    await target.drain()
            told_so = True
        if await self._arrives(crossing, back=back):
            if told_so:
                with contextlib.suppress(OSError):
                    target.write_eof()
            else:
                crossing.end()

    async def _arrives(self, crossing: _Crossing, *, back: bool) -> bool:
        if self._weather is Weather.FAIR or (self._weather is Weather.MUTE and not back):
            return True
        self.hit += 1
        if self._weather is Weather.SLOW:
            await asyncio.sleep(self.delay_s)
        if self._weather is Weather.STILL:
            await self._clear.wait()
        if self._weather is Weather.MUTE:
            crossing.robbed = True
            return False
        return True


_AT_ONCE = struct.pack("ii", 1, 0)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by RST, not by a FIN that would look like a farewell."""
    with contextlib.suppress(OSError):
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()


def to_socket(path: str) -> Far:
    """Lead to a Unix socket."""
    return lambda: asyncio.open_unix_connection(path)


def to_port(port: int) -> Far:
    """Lead to a port of this machine."""
    return lambda: asyncio.open_connection("127.0.0.1", port)
