"""The way to a broker, a proxy: a test may cut or throttle it, hold answers, fail large batches."""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass

from jobqueue.config.model import KafkaSettings
from tests.support.kafka import Broker
from tests.support.kafka_produce import is_produce, largest_batch, read_frame, refusal
from tests.support.own_loop import OwnLoop, stop_listening


@dataclass(eq=False)
class _Crossing:
    """One connection of a client, and its continuation to the broker."""

    near: asyncio.StreamReader
    near_writer: asyncio.StreamWriter
    far: asyncio.StreamReader
    far_writer: asyncio.StreamWriter
    produces: bool = False

    def end(self) -> None:
        self.near_writer.transport.abort()
        self.far_writer.transport.abort()


class Way:
    """A TCP proxy in front of a broker, with TLS towards clients when there is a context.

    It runs on a loop of its own: a test that waits for an answer must not hold it up.
    """

    def __init__(self, broker: Broker, tls: ssl.SSLContext | None = None) -> None:
        self.passable = False
        self.refused = 0
        """Connections that were turned away."""
        self.largest_batch: int | None = None
        """Requests with a batch of more bytes are refused in the broker's name, as by its
        ``message.max.bytes``."""
        self.requests_refused = 0
        self.bytes_s: float | None = None
        """How many bytes of records a connection takes in a second."""
        self.answers_held = 0
        self._broker = broker
        self._holding = False
        self._crossings: set[_Crossing] = set()
        self._loop = OwnLoop()
        self._server: asyncio.Server = self._loop.do(
            asyncio.start_server(
                self._serve, "127.0.0.1", broker.advertised, ssl=tls, reuse_port=True
            )
        )

    def settings(self, topic: str) -> KafkaSettings:
        """Return settings that reach the broker this way."""
        return KafkaSettings(brokers=(self._broker.address,), topic=topic)

    def open(self) -> None:
        """Let connections through."""
        self.passable = True

    def cut(self) -> None:
        """End every connection and let none through."""
        self.passable = False
        self._loop.do(self._cut())

    def hold_answers(self) -> None:
        """Let records through to the broker and its confirmations to nobody, for good."""
        self._holding = True

    def release_answers(self) -> None:
        """Hold back those of new connections no more."""
        self._holding = False

    def close(self) -> None:
        """End it."""
        self._loop.do(self._close())
        self._loop.end()

    async def _cut(self) -> None:
        for crossing in self._crossings:
            crossing.end()

    async def _close(self) -> None:
        self.passable = False
        await stop_listening(self._server)
        await self._cut()

    async def _serve(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.passable:
            self.refused += 1
            writer.transport.abort()
            return
        try:
            far, far_writer = await asyncio.open_connection("127.0.0.1", self._broker.port)
        except OSError:  # the broker has ended
            writer.transport.abort()
            return
        crossing = _Crossing(near, writer, far, far_writer)
        self._crossings.add(crossing)
        if self.passable:
            await asyncio.gather(self._requests(crossing), self._answers(crossing))
        self._crossings.discard(crossing)
        crossing.end()

    async def _requests(self, crossing: _Crossing) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async for frame in read_frame(crossing.near):
                if is_produce(frame):
                    crossing.produces = True
                    if self.largest_batch and largest_batch(frame) > self.largest_batch:
                        self.requests_refused += 1
                        crossing.near_writer.write(refusal(frame))
                        continue
                    if self.bytes_s:
                        await asyncio.sleep(len(frame) / self.bytes_s)
                crossing.far_writer.write(frame)
                await crossing.far_writer.drain()
        crossing.end()

    async def _answers(self, crossing: _Crossing) -> None:
        with contextlib.suppress(OSError):
            while data := await crossing.far.read(65_536):
                if self._holding and crossing.produces:
                    self.answers_held += 1
                    continue
                crossing.near_writer.write(data)
                await crossing.near_writer.drain()
        crossing.end()
