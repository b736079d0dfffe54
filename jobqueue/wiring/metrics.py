"""The port where metrics are read, and those of a worker (R-7.1)."""

from collections.abc import Sequence

from jobqueue.config.model import Settings
from jobqueue.http.metrics import metrics_app
from jobqueue.http.server import HttpServer
from jobqueue.runtime.log import get_logger
from jobqueue.telemetry.metrics import Metrics, WorkerMetrics

_log = get_logger(__name__)


class MetricsDoor:
    """The metrics port of a program. ``start``, then ``stop``."""

    def __init__(self, metrics: Metrics, settings: Settings) -> None:
        self._door = HttpServer(metrics_app(metrics.page), "metrics.port", settings.metrics.port)

    async def start(self) -> None:
        """Begin to answer. Raises Unavailable when the port is taken."""
        _log.info("metrics are served", metrics_port=await self._door.start())

    async def stop(self) -> None:
        """End within 2 s."""
        await self._door.stop()


def worker_metrics(queues: Sequence[str]) -> WorkerMetrics:
    """Return the metrics of a worker that serves these queues; they count from now on."""
    metrics = WorkerMetrics(queues)
    metrics.listen()
    return metrics
