"""Which of the tasks that one server does this server does now (R-7.1)."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobqueue.coordination.signals import LOCK_CHANGED, LockChanged
from jobqueue.events.signals import RELAY_CHANGED, RelayChanged, RelayState

RELAY_LOCK = "event-relay"
LOCKS = ("reaper", "scheduler", RELAY_LOCK)


class LockMetrics(Collector):
    """Which of the tasks that one server does this server does now."""

    def __init__(self) -> None:
        self._held = dict.fromkeys(LOCKS, False)

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        LOCK_CHANGED.subscribe(self._changed)
        RELAY_CHANGED.subscribe(self._relay_changed)

    def collect(self) -> Iterator[Metric]:
        """Yield one metric."""
        held = GaugeMetricFamily(
            "jq_lock_held", "1 while this server holds the lock, else 0.", labels=["lock"]
        )
        for lock, holds in self._held.items():
            held.add_metric([lock], float(holds))
        yield held

    def _changed(self, news: LockChanged) -> None:
        self._held[news.lock] = news.held

    def _relay_changed(self, news: RelayChanged) -> None:
        self._held[RELAY_LOCK] = news.state in {RelayState.HOLDING, RelayState.FAILING}
