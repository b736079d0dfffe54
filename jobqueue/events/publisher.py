"""The producer of Kafka: sends records, and says what became of each (R-6.2, R-6.3).

Only this module knows the vendor. Nothing is in flight outside a call of ``publish``, so that
memory holds two pages of events whatever Kafka does.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from jobqueue.config.model import KafkaSettings
from jobqueue.config.secret import MASK, Secret
from jobqueue.errors import Fault, SettingsError, Unavailable
from jobqueue.events.encode import Headers, Record

DELIVERY_S = 10.0
"""A record that is not confirmed within this has failed; it is sent again later."""
MAX_IN_FLIGHT = 5_000
_FLUSH_S = 0.1
_ANY_PARTITION, _NOW = -1, 0
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


_Report: TypeAlias = Callable[[KafkaError | None, Message], None]
_Message: TypeAlias = tuple[str, bytes, bytes, int, _Report, None, int, Headers]
"""What ``produce`` takes, in its order."""


@dataclass(slots=True)
class _Flight:
    """Records under way together, by their place, and their reports."""

    records: Mapping[int, Record]
    left: int
    failures: dict[int, Failure] = field(default_factory=dict)
    _errors: list[tuple[bytes | None, KafkaError]] = field(default_factory=list)
    _reported: list[int] = field(default_factory=list)

    def reported(self, error: KafkaError | None, message: Message) -> None:
        """Take in the report of one record: the same call for all, there are many."""
        self.left -= 1
        if error is not None:
            self._errors.append((message.value(), error))

    def failed(self, index: int, error: KafkaError) -> None:
        self.failures[index] = Failure(error.str(), error.code() in _REFUSED)

    def landed(self) -> None:
        """Find out which records the bad reports are about; each value is of one event."""
        if not self._errors:
            return
        places = {value: index for index, (_, value, _) in self.records.items()}
        for value, error in self._errors:
            index = places[value or b""]
            self.failed(index, error)
            self._reported.append(index)

    @property
    def refused(self) -> bool:
        """Tell whether a record was refused for good, maybe for what another one holds."""
        return any(failure.refused for failure in self.failures.values())

    @property
    def spoiled(self) -> bool:
        """Tell whether a report was bad: an idempotent producer's numbering may be broken then."""
        return bool(self._reported)

    def in_doubt(self) -> list[dict[int, Record]]:
        """Return, in two parts, those that may have failed only for the company they were in."""
        if len(self.records) == 1 or not self.refused:
            return []
        found, half = sorted(self._reported), (len(self._reported) + 1) // 2
        parts = (found[:half], found[half:])
        return [{index: self.records[index] for index in part} for part in parts if part]


class _Cause:
    """Why Kafka is not reached, as the library told last."""

    def __init__(self) -> None:
        self.text = ""

    def note(self, error: KafkaError) -> None:
        # That brokers are down follows from causes that were told before.
        if not self.text or error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self.text = error.str()


class _Held:
    """A producer that is used in threads, one at a time, and ended in one that nobody waits for.

    Its end joins the library's threads, and one of them may ask for a name for ten seconds: so
    neither the loop nor its executor, for which a program waits, may hold the last reference.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer: Producer | None = producer
        self._lock = threading.Lock()

    async def use(self, work: Callable[[Producer], object]) -> None:
        """Let ``work`` have it, in a thread. Raises Unavailable after ``drop``."""
        await asyncio.to_thread(self._used, work)

    def drop(self) -> None:
        """End it, once its last use is over; what is under way is heard of no more."""
        # A daemon: it must not keep the program from ending.
        threading.Thread(target=self._drop, name="kafka", daemon=True).start()

    def _used(self, work: Callable[[Producer], object]) -> None:
        with self._lock:
            if self._producer is None:
                raise Unavailable("the producer was abandoned", reason="KAFKA_ABANDONED")
            work(self._producer)

    def _drop(self) -> None:
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()


class Publisher:
    """Sends records to one topic. ``open`` first; nothing is asked of Kafka before ``publish``."""

    def __init__(self, settings: KafkaSettings, **overrides: Any) -> None:
        """``overrides`` are settings of the vendor's library, for tests."""
        self.topic = settings.topic
        self.most_in_flight = 0
        self.flights = 0
        self._cause = _Cause()
        self._options = producer_options(settings) | overrides
        self._producer: _Held | None = None

    @property
    def last_error(self) -> str:
        """Why Kafka was not reached since ``publish`` was called last; empty: it was."""
        return self._cause.text

    async def publish(self, records: Sequence[Record]) -> dict[int, Failure]:
        """Send records together, at most ``MAX_IN_FLIGHT``, and wait for all their reports.

        Returns the failures by their place in ``records``. A broker refuses a whole batch for one
        of its records or for their sum, and others fail in its wake, so these are sent again in
        ever smaller parts: one is ``refused`` only when it was alone. Takes at most about
        ``DELIVERY_S``, and the time of an answer for each part.
        """
        self._cause.text = ""
        flight = await self._fly(self._producer or self._open(), dict(enumerate(records)))
        if flight.spoiled:
            self.abandon()
        return await self._apart(flight) if flight.in_doubt() else flight.failures

    def abandon(self) -> None:
        """Forget what is under way; reports of it are heard no more."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.drop()

    def _open(self, **overrides: Any) -> _Held:
        self._producer = _Held(_made(self._options | {"error_cb": self._cause.note} | overrides))
        return self._producer

    async def _apart(self, whole: _Flight) -> dict[int, Failure]:
        """Send what is in doubt in parts, without the numbering, which every refusal breaks.

        Order does not depend on it, and what it keeps from coming twice may come twice.
        """
        producer = self._open(**{"enable.idempotence": False})
        failures, parts = whole.failures, whole.in_doubt()
        try:
            while parts:
                part = parts.pop(0)
                flight = await self._fly(producer, part)
                failures = {i: f for i, f in failures.items() if i not in part} | flight.failures
                if flight.failures and not flight.refused:
                    break  # Kafka is away
                parts = flight.in_doubt() + parts
        finally:
            self.abandon()
        return failures

    async def _fly(self, producer: _Held, records: Mapping[int, Record]) -> _Flight:
        flight = _Flight(records, len(records))
        await producer.use(lambda held: self._send(held, flight))
        self.most_in_flight = max(self.most_in_flight, len(records))
        while flight.left:
            await producer.use(lambda held: held.flush(_FLUSH_S))
        flight.landed()
        self.flights += 1
        return flight

    def _send(self, producer: Producer, flight: _Flight) -> None:
        """Hand all to the library, in a thread: thousands would hold up the loop."""
        until = time.monotonic() + DELIVERY_S
        produce, report = producer.produce, flight.reported
        for index, (key, value, headers) in flight.records.items():
            # By place: by name costs a fifth more.
            message = (self.topic, value, key, _ANY_PARTITION, report, None, _NOW, headers)
            try:
                try:
                    produce(*message)
                except BufferError:  # `kafka.options` may make the queue shorter than a page
                    _insist(producer, message, until)
            except KafkaException as error:
                flight.left -= 1
                flight.failed(index, error.args[0])


def _insist(producer: Producer, message: _Message, until: float) -> None:
    """Hand a message to a library whose queue is full. Raises Unavailable when it stays so."""
    while True:
        producer.poll(_FLUSH_S)
        try:
            return producer.produce(*message)
        except BufferError as error:
            if time.monotonic() >= until:
                fault = "the producer's queue is full"
                raise Unavailable(fault, reason="KAFKA_BUSY") from error


def producer_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return the settings of the vendor's producer; ``kafka.options`` win over what we prefer."""
    preferred = {
        "acks": settings.producer.acks,
        "enable.idempotence": settings.producer.acks == "all",
        "compression.type": settings.producer.compression,
        "partitioner": "murmur2_random",  # as Java's: so that topics can be joined
        "linger.ms": 5,
        "message.timeout.ms": int(DELIVERY_S * 1000),
        "queue.buffering.max.messages": MAX_IN_FLIGHT + 1,
    }
    return {**preferred, **connection_options(settings)}


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
    return options | {name: _plain(value) for name, value in settings.options.items()}


def check_options(settings: KafkaSettings) -> None:
    """Let the library judge its settings; reach for nobody.

    Raises SettingsError for a name or value that it does not know, and for certificates and keys
    that it cannot load.
    """
    options = producer_options(settings)
    del options["bootstrap.servers"]
    try:
        Producer(options, logger=logging.getLogger(__name__))
    except KafkaException as error:
        text = error.args[0].str()
        for value in settings.options.values():
            if isinstance(value, Secret):
                text = text.replace(value.reveal(), MASK)
        named = any(name in text for name in settings.options)
        # `from None`: the cause may print what was given.
        raise SettingsError([Fault("kafka.options" if named else "kafka", text)]) from None


def _made(options: dict[str, Any]) -> Producer:
    """Return a producer. Raises Unavailable: certificates were there when the server started."""
    try:
        return Producer(options, logger=logging.getLogger(__name__))
    except KafkaException as error:
        raise Unavailable(f"Kafka: {error.args[0].str()}", reason="KAFKA_SETTINGS") from error


def _plain(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


async def check_kafka(settings: KafkaSettings, timeout_s: float = 5.0) -> str:
    """Ask Kafka for the topic; return a line about it. Raises Unavailable."""
    return await asyncio.to_thread(_look, settings, timeout_s)


def _look(settings: KafkaSettings, timeout_s: float) -> str:
    cause = _Cause()
    producer = _made(connection_options(settings) | {"error_cb": cause.note})
    try:
        # All of them: a broker may make a topic that it is asked for by name.
        found = producer.list_topics(timeout=timeout_s)
    except KafkaException as error:
        producer.poll(0)  # only this lets the library tell its causes
        text = cause.text or error.args[0].str()
        raise Unavailable(f"Kafka: {text}", reason="KAFKA_UNAVAILABLE") from error
    topic = found.topics.get(settings.topic)
    if topic is None or topic.error is not None:
        fault = "there is none that we may see" if topic is None else topic.error.str()
        message = f"Kafka answers; topic {settings.topic}: {fault}"
        raise Unavailable(message, reason="KAFKA_TOPIC")
    return (
        f"{len(found.brokers)} brokers, topic {settings.topic}, {len(topic.partitions)} partitions"
    )
