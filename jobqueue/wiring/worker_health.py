"""What the probes of `jq-worker` tell (R-7.4), without anything that only a server needs."""

from jobqueue.http.health import Health
from jobqueue.runtime.service import running_services
from jobqueue.wiring.health import stuck
from jobqueue.worker.claiming import CLAIM_LOOP
from jobqueue.worker.signals import PHASE_ENTERED, PhaseEntered


class WorkerHealth:
    """What is told: what the worker says of itself and how its claims go."""

    def __init__(self) -> None:
        self._phase = "starting"

    def listen(self) -> None:
        """Follow the phases of the worker, for the life of the process."""
        PHASE_ENTERED.subscribe(self._enter)

    def look(self) -> Health:
        """Return what is true now."""
        return Health(stuck(), self._unready())

    def _enter(self, news: PhaseEntered) -> None:
        self._phase = news.phase

    def _unready(self) -> dict[str, str]:
        if self._phase != "ready":
            return {"worker": self._phase}
        failing = [s for s in running_services() if s.name == CLAIM_LOOP and s.failures]
        return {s.name: f"{s.failures} claims in a row failed" for s in failing}
