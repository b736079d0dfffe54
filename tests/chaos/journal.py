"""What has happened in a run, and when."""

from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.history import Stop


@dataclass
class Journal:
    """Counts by name of accident, and the moments that recovery is measured from."""

    landed: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    """Tries that came to nothing, and why."""
    killed: list[tuple[float, str]] = field(default_factory=list)
    """When which worker was killed, by name."""
    stops: list[Stop] = field(default_factory=list)
    """When which programs stood still."""
    long_pauses: int = 0
    """Those that lasted longer than a lease."""
    struck_at_work: int = 0
    """Workers that were killed while they held leases."""
    orderly_ends: int = 0
    """Programs that one SIGTERM ended, with nothing left to say."""
    hurried_ends: int = 0
    """Those that ended with 1: not all could be handed back, or told."""
    unmet: list[str] = field(default_factory=list)
    """What had to follow an accident and did not."""
    back: list[float] = field(default_factory=list)
    """When PostgreSQL took connections, or writes, again."""
    led_again_s: list[float] = field(default_factory=list)
    """Seconds from the end of a server that led until another one did."""

    def count(self, *kinds: str) -> int:
        """Return how many of these kinds landed; a kind ends where its name has a colon."""
        return sum(n for name, n in self.landed.items() if name.split(":")[0] in kinds)
