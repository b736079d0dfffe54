"""What a program is, what its loops do, and what it holds now (R-7.1)."""

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from jobqueue.runtime.service import running_services


class ProcessMetrics(Collector):
    """Of both programs: build and loops."""

    def __init__(self, version: str, commit: str) -> None:
        self._build = {"version": version, "commit": commit}

    def collect(self) -> Iterator[Metric]:
        """Yield two metrics."""
        yield InfoMetricFamily("jq_build", "What runs here.", value=self._build)
        loops = GaugeMetricFamily(
            "jq_loop_last_progress_seconds",
            "Seconds since a loop last finished a turn or began to try again.",
            labels=["loop"],
        )
        for name, seconds in sorted(_idle_s().items()):
            loops.add_metric([name], seconds)
        yield loops


def _idle_s() -> dict[str, float]:
    """Return the seconds since the progress of each loop; of several of one name, the longest."""
    now = time.monotonic()
    found: dict[str, float] = {}
    for service in running_services():
        idle_s = max(now - service.last_progress, 0.0)
        found[service.name] = max(idle_s, found.get(service.name, 0.0))
    return found


class ConcurrencyMetrics(Collector):
    """How many jobs a worker runs now."""

    def __init__(self, worker_id: str, running: Callable[[], int]) -> None:
        self._worker_id = worker_id
        self._running = running

    def collect(self) -> Iterator[Metric]:
        """Yield one metric."""
        family = GaugeMetricFamily(
            "jq_worker_job_concurrency", "Jobs that run here now.", labels=["worker_id"]
        )
        family.add_metric([self._worker_id], self._running())
        yield family
