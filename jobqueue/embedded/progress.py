"""Whether a server that starts gets anywhere: recovery after a crash has no limit of its own."""

import time
from collections.abc import Callable
from pathlib import Path

_SILENCE_S = 60.0
_TELL_AFTER_S = 5.0
_TAIL_BYTES = 2000


class Progress:
    """Reads the log of one start: PostgreSQL writes a line every 10 s while it recovers.

    ``tell`` gets the newest line of a start that takes its time.
    """

    def __init__(
        self,
        log: Path,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._tell = tell
        self._clock = clock
        self._size = 0
        self._begun = self._grown = clock()

    def is_over(self) -> bool:
        """Look once; say whether nothing was written for a minute."""
        now, size = self._clock(), self._log.stat().st_size
        if size != self._size:
            self._size, self._grown = size, now
            if now - self._begun > _TELL_AFTER_S:
                self._tell(tail(self._log).rpartition("\n")[2])
        return now - self._grown > _SILENCE_S


def tail(log: Path) -> str:
    """Return the end of a log."""
    try:
        return log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").strip()
    except OSError:
        return "it left no log"
