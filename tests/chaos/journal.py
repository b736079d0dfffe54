"""What has happened in a run, and when."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Journal:
    """Counts by name of accident, and the moments that recovery is measured from."""

    landed: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    """Tries that came to nothing, and why."""
    killed: list[tuple[float, str]] = field(default_factory=list)
    """When which worker was killed, by name."""
    long_pauses: int = 0
    """Those that lasted longer than a lease."""
    back: list[float] = field(default_factory=list)
    """When PostgreSQL took connections, or writes, again."""
    led_again_s: list[float] = field(default_factory=list)
    """Seconds from the end of a server that led until another one did."""

    def count(self, *kinds: str) -> int:
        """Return how many of these kinds landed; a kind ends where its name has a colon."""
        return sum(n for name, n in self.landed.items() if name.split(":")[0] in kinds)
