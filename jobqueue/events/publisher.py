"""The producer of Kafka: sends records, and says what became of each (R-6.2, R-6.3).

Only this module knows the vendor. Nothing is in flight outside a call of ``publish``, so that
memory holds one page of events whatever Kafka does.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from jobqueue.config.model import KafkaSettings
from jobqueue.errors import Unavailable
from jobqueue.events.encode import Record

DELIVERY_S = 10.0
"""A record that is not confirmed within this has failed; it is sent again later."""
MAX_IN_FLIGHT = 1_000
_POLL_S = 0.1
_LIBRARY_LOG_LEVEL = 0  # causes come with reports and errors; its lines repeat for ever
_REFUSED = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError._BAD_MSG,  # noqa: SLF001 - the vendor's names of local errors begin so
}
"""Errors of one record that no repeating heals."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record was not taken; ``refused`` says that it never will be."""

    cause: str
    refused: bool


@dataclass(slots=True)
class _Wave:
    """Records under way together, and their reports."""

    left: int
    failures: dict[int, Failure] = field(default_factory=dict)

    def reporter(self, index: int) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, _message: Message) -> None:
            self.ended(index, error)

        return report

    def ended(self, index: int, error: KafkaError | None) -> None:
        self.left -= 1
        if error is not None:
            self.failures[index] = Failure(error.str(), error.code() in _REFUSED)


class Publisher:
    """Sends records to one topic. ``open`` first; nothing is asked of Kafka before ``publish``."""

    def __init__(self, settings: KafkaSettings, **overrides: Any) -> None:
        """``overrides`` are settings of the vendor's library, for tests."""
        self.topic = settings.topic
        self.most_in_flight = 0
        self.last_error = ""
        self._options = producer_options(settings) | overrides
        self._producer: Producer | None = None

    async def publish(self, records: Sequence[Record]) -> dict[int, Failure]:
        """Send records together, at most ``MAX_IN_FLIGHT``, and wait for all their reports.

        Returns the failures by their place in ``records``. Takes at most about ``DELIVERY_S``.
        """
        producer = self._producer or self._open()
        self.last_error = ""
        wave = _Wave(len(records))
        for index, each in enumerate(records):
            self._send(producer, wave, index, each)
        self.most_in_flight = max(self.most_in_flight, len(producer))
        while wave.left:
            await asyncio.to_thread(producer.poll, _POLL_S)
        self._drop_when_fatal(producer, wave)
        return wave.failures

    def abandon(self) -> None:
        """Forget what is under way; reports of it are heard no more."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def _open(self) -> Producer:
        logger = logging.getLogger(__name__)
        try:
            self._producer = Producer(self._options | {"error_cb": self._note}, logger=logger)
        except KafkaException as error:
            raise Unavailable(f"Kafka: {error.args[0].str()}", reason="KAFKA_SETTINGS") from error
        return self._producer

    def _send(self, producer: Producer, wave: _Wave, index: int, each: Record) -> None:
        try:
            producer.produce(
                self.topic,
                each.value,
                each.key,
                headers=each.headers,
                on_delivery=wave.reporter(index),
            )
        except KafkaException as error:
            wave.ended(index, error.args[0])
        except BufferError as error:
            raise Unavailable("the producer's queue is full", reason="KAFKA_BUSY") from error

    def _note(self, error: KafkaError) -> None:
        self.last_error = error.str()

    def _drop_when_fatal(self, producer: Producer, wave: _Wave) -> None:
        """An idempotent producer whose numbering is broken never sends again."""
        lost = any(not failure.refused for failure in wave.failures.values())
        if lost and self._producer is producer:
            self.abandon()


def producer_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return the settings of the vendor's producer."""
    options: dict[str, Any] = {
        **connection_options(settings),
        "acks": settings.producer.acks,
        "enable.idempotence": settings.producer.acks == "all",
        "compression.type": settings.producer.compression,
        "partitioner": "murmur2_random",  # as Java's: so that topics can be joined
        "linger.ms": 5,
        "message.timeout.ms": int(DELIVERY_S * 1000),
        "queue.buffering.max.messages": MAX_IN_FLIGHT + 1,
    }
    return options


def connection_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return how Kafka is reached."""
    options: dict[str, Any] = {
        "bootstrap.servers": ",".join(settings.brokers),
        "client.id": "jq-server",
        "log_level": _LIBRARY_LOG_LEVEL,
        "reconnect.backoff.max.ms": 2_000,
        "socket.timeout.ms": int(DELIVERY_S * 1000),
        "topic.metadata.propagation.max.ms": 0,
    }
    if settings.security_protocol:
        options["security.protocol"] = settings.security_protocol
    login = settings.sasl
    if login.mechanism:
        options["sasl.mechanism"] = login.mechanism
    if login.username and login.password:
        options["sasl.username"] = login.username
        options["sasl.password"] = login.password.reveal()
    return options


async def check_kafka(settings: KafkaSettings, timeout_s: float = 5.0) -> str:
    """Ask Kafka for the topic; return a line about it. Raises Unavailable."""
    return await asyncio.to_thread(_look, settings, timeout_s)


def _look(settings: KafkaSettings, timeout_s: float) -> str:
    causes: list[str] = []
    options = connection_options(settings) | {"error_cb": lambda error: causes.append(error.str())}
    try:
        producer = Producer(options, logger=logging.getLogger(__name__))
        found = producer.list_topics(settings.topic, timeout_s)
    except KafkaException as error:
        cause = causes[0] if causes else error.args[0].str()
        raise Unavailable(f"Kafka: {cause}", reason="KAFKA_UNAVAILABLE") from error
    topic = found.topics[settings.topic]
    if topic.error is not None:
        message = f"Kafka answers; topic {settings.topic}: {topic.error.str()}"
        raise Unavailable(message, reason="KAFKA_TOPIC")
    return (
        f"{len(found.brokers)} brokers, topic {settings.topic}, {len(topic.partitions)} partitions"
    )
