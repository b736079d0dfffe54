"""The metrics of a server. A worker loads none of it."""

from jobqueue.telemetry.metrics import Metrics
from jobqueue.telemetry.metrics_calls import ServerCalls
from jobqueue.telemetry.metrics_figures import FigureMetrics
from jobqueue.telemetry.metrics_locks import LockMetrics
from jobqueue.telemetry.metrics_queues import QueueMetrics


class ServerMetrics(Metrics):
    """The metrics of `jq-server`. ``calls`` is to be told of every gRPC call."""

    def __init__(self, topic: str | None) -> None:
        """``topic`` is that of Kafka, None where there is none."""
        super().__init__(QueueMetrics.of_server())
        self.calls = ServerCalls(topic)
        self._locks = LockMetrics()
        self._figures = FigureMetrics(self.queues)
        for collector in (self._figures, self.calls, self._locks):
            self.show(collector)

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        super().listen()
        self.calls.listen()
        self._locks.listen()
        self._figures.listen()
