"""What accidents share: the system they strike, whom they may, chance, and what is written down."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jobqueue.store.faults import DRIVER_ERRORS
from tests.chaos.journal import Journal
from tests.chaos.system import System
from tests.chaos.victims import Victims

Action = Callable[[str], Awaitable[bool]]
"""Lets an accident happen to what its name says behind the colon; returns whether it did."""

OTHERS_FAULT = (*DRIVER_ERRORS, TimeoutError)
"""What meets whoever looks at a database that others strike."""

POSTGRES, REDIS, KAFKA, LINK = "postgres", "redis", "kafka", "link "
"""Names of victims that are no programs; a link's goes on with its own.

The links to Redis and Kafka are not struck beside what they lead to, and bear its name.
"""

READY_S = 30.0


@dataclass(frozen=True, slots=True)
class Scene:
    """One system in one run."""

    system: System
    victims: Victims
    rng: random.Random
    journal: Journal


def scene_of(system: System, rng: random.Random, journal: Journal) -> Scene:
    """Let every program and every service of a system be struck."""
    links = [LINK + name for name in system.links if name not in (REDIS, KAFKA)]
    names = [*system.slots, *links, POSTGRES, REDIS, KAFKA]
    return Scene(system, Victims(names, rng), rng, journal)
