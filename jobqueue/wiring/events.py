"""Builds the relay of events when Kafka is configured, and says how it is (R-6, R-7.5)."""

import os
import socket

from jobqueue.config.model import Settings
from jobqueue.events.publisher import Publisher
from jobqueue.events.relay import Relay
from jobqueue.events.signals import (
    EVENTS_PARKED,
    RELAY_CHANGED,
    Parked,
    RelayChanged,
    RelayState,
)
from jobqueue.rpc.components import DEGRADED, OFF, OK, component
from jobqueue.runtime.log import Quiet, get_logger
from jobqueue.store.pool import Pool
from jobqueue.v1 import admin_service_pb2 as admin

_log = get_logger(__name__)


class EventRelay:
    """The relay of one server. Without `kafka.brokers` there is none, and no cursor is made."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        self.loops: tuple[Relay, ...] = ()
        if settings.kafka.brokers:
            self.loops = (
                Relay(
                    pool,
                    Publisher(settings.kafka),
                    holder=f"{socket.gethostname()}-{os.getpid()}",
                    event_bytes=settings.limits.event_bytes,
                ),
            )

    def component(self) -> admin.ComponentStatus:
        """Return how the way to Kafka is."""
        if not self.loops:
            return component("kafka", OFF, "kafka.brokers is not set; events stay in the database")
        (relay,) = self.loops
        if relay.state is RelayState.FAILING:
            return component("kafka", DEGRADED, f"events wait: {relay.cause}")
        return component("kafka", OK, f"relay {relay.state}")


class RelayLog:
    """Writes one line for each change of the relay's state, and for parked events."""

    def __init__(self) -> None:
        self._quiet = Quiet()

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        RELAY_CHANGED.subscribe(self._changed)
        EVENTS_PARKED.subscribe(self._parked)

    def _changed(self, news: RelayChanged) -> None:
        if news.state is RelayState.FAILING:
            _log.warning("Kafka does not take events; they wait", cause=news.cause)
        elif news.state is RelayState.HOLDING:
            _log.info("publishing events to Kafka")
        elif news.state is RelayState.STANDBY:
            _log.info("standing by: another server publishes events")

    def _parked(self, news: Parked) -> None:
        if self._quiet.admits(news.cause):
            _log.warning(
                "Kafka refused an event, it is parked", event_id=news.event_id, cause=news.cause
            )
