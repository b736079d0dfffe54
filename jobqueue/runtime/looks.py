"""How often to look at what dead rows may fill: an open transaction keeps them in every table."""

from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock

SHARE = 60
"""What looks take beyond the usual is one in so many seconds."""

LONGEST_S = 10.0
"""However dear looks are, the next is due so many seconds after the last."""


class Looks:
    """Spaces looks out, the more the dearer they are.

    The cheaper one of two in a row counts: one slow answer may be a busy machine, or something that
    held up this process. Times are of ``clock``, in seconds.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, longest_s: float = LONGEST_S) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._beyond_s = 0.0
        self._due_at = clock.monotonic()

    @property
    def wait_s(self) -> float:
        """How long until the next look is due; 0 when it is."""
        return max(self._due_at - self._clock.monotonic(), 0.0)

    def note(self, took_s: float, *, usual_s: float = 0.0) -> None:
        """Take in what a look took that ends now; ``usual_s`` of it is taken in any case."""
        beyond_s = max(took_s - usual_s, 0.0)
        cost_s, self._beyond_s = min(beyond_s, self._beyond_s), beyond_s
        self._due_at = self._clock.monotonic() + min(SHARE * cost_s, self._longest_s)

    def hurry(self) -> None:
        """Let the next look be due now; what looks cost is still known."""
        self._due_at = self._clock.monotonic()

    def forget(self) -> None:
        """Know nothing of what looks cost: the next dear one is the first in a row."""
        self._beyond_s = 0.0
