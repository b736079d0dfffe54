"""Monotonic time as an argument, so that a test can move it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that never run backwards; the zero means nothing."""

    def monotonic(self) -> float:
        """Return the seconds now."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        """Return the seconds now."""
        return time.monotonic()


class ManualClock:
    """A clock that stands until a test moves it."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def monotonic(self) -> float:
        """Return the seconds now."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        self._now += seconds


SYSTEM_CLOCK = SystemClock()
