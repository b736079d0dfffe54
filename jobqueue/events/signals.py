"""What happened to the stream of events, for those who count and log it."""

from dataclasses import dataclass
from enum import StrEnum

from jobqueue.runtime.signals import Signal
from jobqueue.store.events import Backlog


class RelayState(StrEnum):
    """What the relay of this server does."""

    STARTING = "starting"
    """Has not asked for the cursor yet, or has ended."""
    HOLDING = "holding"
    """Holds the cursor and publishes."""
    STANDBY = "standby"
    """Another server publishes."""
    FAILING = "failing"
    """Holds the cursor, and Kafka does not take what it publishes; tries again by itself."""


@dataclass(frozen=True, slots=True)
class RelayChanged:
    """The relay is in another state now; ``cause`` is text for people, or empty."""

    state: RelayState
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """Kafka has confirmed ``count`` events."""

    topic: str
    count: int


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """Kafka has not taken ``count`` events; they are sent again, or were parked."""

    topic: str
    count: int
    cause: str


@dataclass(frozen=True, slots=True)
class Parked:
    """An event was refused for good and set aside."""

    event_id: int
    cause: str


RELAY_CHANGED: Signal[RelayChanged] = Signal("relay_changed")
EVENTS_PUBLISHED: Signal[Published] = Signal("events_published")
KAFKA_PUBLISH_FAILED: Signal[PublishFailed] = Signal("kafka_publish_failed")
EVENTS_PARKED: Signal[Parked] = Signal("events_parked")
EVENT_FIGURES: Signal[Backlog] = Signal("event_figures")
"""Every few seconds on each server that has a relay, the same on all of them."""
