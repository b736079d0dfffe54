"""The metrics of a worker, and what those of both programs share (R-7.1).

Made once for a process, before its parts: what they signal from then on is counted.
"""

from collections.abc import Callable, Iterable

from prometheus_client import exposition
from prometheus_client.openmetrics import exposition as open_metrics
from prometheus_client.registry import Collector, CollectorRegistry

from jobqueue.runtime.version import commit, version
from jobqueue.telemetry.metrics_process import ConcurrencyMetrics, ProcessMetrics
from jobqueue.telemetry.metrics_queries import QueryMetrics
from jobqueue.telemetry.metrics_queues import QueueMetrics

_OPEN_METRICS = "application/openmetrics-text"
_OPEN_METRICS_TYPE = f"{_OPEN_METRICS}; version=1.0.0; charset=utf-8"
_TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What both programs have."""

    def __init__(self, queues: QueueMetrics) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self.queues = queues
        self._queries = QueryMetrics()
        for collector in (ProcessMetrics(version(), commit()), queues, self._queries):
            self.show(collector)

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        self.queues.listen()
        self._queries.listen()

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type: OpenMetrics where ``accept`` asks for it.

        May be called in any thread.
        """
        if _OPEN_METRICS in accept:
            page = open_metrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]
            return page, _OPEN_METRICS_TYPE
        return exposition.generate_latest(self._registry), _TEXT_TYPE

    def show(self, collector: Collector) -> None:
        """Have these on the page too."""
        self._registry.register(collector)


class WorkerMetrics(Metrics):
    """The metrics of `jq-worker`, which serves these queues."""

    def __init__(self, queues: Iterable[str]) -> None:
        super().__init__(QueueMetrics.of_worker(queues))

    def watch(self, worker_id: str, running: Callable[[], int]) -> None:
        """Show how many jobs the worker runs, which ``running`` tells."""
        self.show(ConcurrencyMetrics(worker_id, running))
