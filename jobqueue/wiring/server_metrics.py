"""The metrics of `jq-server` (R-7.1). Beside the port: a worker loads nothing of it."""

from jobqueue.config.model import Settings
from jobqueue.rpc.signals import CALL_ENDED, CallEnded
from jobqueue.telemetry.metrics_server import ServerMetrics


def server_metrics(settings: Settings) -> ServerMetrics:
    """Return the metrics of a server; they count from now on, for the life of the process."""
    metrics = ServerMetrics(settings.kafka.topic if settings.kafka.brokers else None)
    metrics.listen()

    def call_ended(news: CallEnded) -> None:
        metrics.calls.call_ended(news.method, news.status_code, news.seconds)

    CALL_ENDED.subscribe(call_ended)
    return metrics
