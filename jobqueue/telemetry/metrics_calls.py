"""How long a server's calls, rounds and questions to Redis take, and what Kafka refuses (R-7.1)."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from jobqueue.coordination.signals import REDIS_OPERATION, RedisOperation
from jobqueue.events.signals import KAFKA_PUBLISH_FAILED, PublishFailed
from jobqueue.reaper.signals import SCHEDULER_CYCLE
from jobqueue.telemetry.metrics_queries import summary
from jobqueue.telemetry.metrics_tally import Durations, Histogram

CYCLE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
MOST_CALLS, MOST_OPERATIONS = 40, 8
"""Combinations of labels; what comes after them is added up under ``other``."""
REFUSED = "refused"
_REFUSALS = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})


class ServerCalls(Collector):
    """Calls, locks, scheduler and producer of a server."""

    def __init__(self, topic: str | None) -> None:
        """``topic`` is Kafka's; None: there is none."""
        self._calls = Durations(MOST_CALLS)
        self._operations = Durations(MOST_OPERATIONS)
        self._cycles = Histogram(CYCLE_BUCKETS_S)
        self._failures: Counter[str] = Counter({topic: 0} if topic else {})

    def listen(self) -> None:
        """Subscribe for the life of the process, to all but the calls: their door is beside us."""
        REDIS_OPERATION.subscribe(self._asked)
        SCHEDULER_CYCLE.subscribe(self._cycles.observe)
        KAFKA_PUBLISH_FAILED.subscribe(self._failed)

    def call_ended(self, method: str, status_code: str, seconds: float) -> None:
        """Take note of a gRPC call. Refused ones count as one method: strangers may try all."""
        self._calls.add((REFUSED if status_code in _REFUSALS else method, status_code), seconds)

    def collect(self) -> Iterator[Metric]:
        """Yield four metrics."""
        yield summary(
            "jq_grpc_request_duration_seconds",
            "How long gRPC calls took; of a stream, its whole life.",
            ["method", "status_code"],
            self._calls,
        )
        yield summary(
            "jq_redis_operation_duration_seconds",
            "How long questions to Redis took.",
            ["operation"],
            self._operations,
        )
        cycles = HistogramMetricFamily(
            "jq_scheduler_cycle_duration_seconds", "How long one batch of the scheduler took."
        )
        cycles.add_metric([], self._cycles.buckets(), self._cycles.total)
        yield cycles
        failures = CounterMetricFamily(
            "jq_kafka_publish_errors", "Events that Kafka did not take.", labels=["topic"]
        )
        for topic, count in list(self._failures.items()):
            failures.add_metric([topic], count)
        yield failures

    def _asked(self, news: RedisOperation) -> None:
        self._operations.add((news.operation,), news.seconds)

    def _failed(self, news: PublishFailed) -> None:
        self._failures[news.topic] += news.count
