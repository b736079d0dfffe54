"""What the probes of `jq-worker` tell (R-7.4), without anything that only a server needs."""

from jobqueue.http.health import Health
from jobqueue.lease.signals import REACH_CHANGED, ReachChanged
from jobqueue.runtime.service import running_services
from jobqueue.wiring.health import stuck
from jobqueue.worker.claiming import CLAIM_LOOP
from jobqueue.worker.signals import PHASE_ENTERED, PhaseEntered


class WorkerHealth:
    """What is told: what the worker says of itself, how its claims go, whether beats arrive.

    A worker whose slots are all taken claims nothing: its beats alone tell it of an outage.
    """

    def __init__(self) -> None:
        self._phase = "starting"
        self._trouble = ""

    def listen(self) -> None:
        """Follow the worker and its keeper, for the life of the process."""
        PHASE_ENTERED.subscribe(self._enter)
        REACH_CHANGED.subscribe(self._reach)

    def look(self) -> Health:
        """Return what is true now."""
        return Health(stuck(), self._unready())

    def _enter(self, news: PhaseEntered) -> None:
        self._phase = news.phase

    def _reach(self, news: ReachChanged) -> None:
        self._trouble = news.trouble

    def _unready(self) -> dict[str, str]:
        if self._phase != "ready":
            return {"worker": self._phase}
        failing = [s for s in running_services() if s.name == CLAIM_LOOP and s.failures]
        claims = {s.name: f"{s.failures} claims in a row failed" for s in failing}
        return claims | ({"heartbeat": self._trouble} if self._trouble else {})
