"""How long statements take, on both programs (R-7.1).

Sums and counts without buckets: with them, every statement, method and code would cost a dozen
series. The shares of jobs that had to wait are in ``jq_job_wait_seconds``.
"""

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from jobqueue.store.signals import QUERY_ENDED, QueryEnded
from jobqueue.telemetry.metrics_tally import Durations

MOST_QUERIES = 62
"""Names; what comes after them is added up under ``other``."""


class QueryMetrics(Collector):
    """Statements, on both programs."""

    def __init__(self) -> None:
        self._queries = Durations(MOST_QUERIES)

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        QUERY_ENDED.subscribe(self._ended)

    def collect(self) -> Iterator[Metric]:
        """Yield one metric."""
        yield summary(
            "jq_db_query_duration_seconds",
            "How long statements took, by name.",
            ["query_name"],
            self._queries,
        )

    def _ended(self, news: QueryEnded) -> None:
        self._queries.add((news.name,), news.seconds)


def summary(name: str, text: str, labels: Sequence[str], durations: Durations) -> Metric:
    """Return a metric of sums and counts."""
    family = SummaryMetricFamily(name, text, labels=labels)
    for values, count, total in durations.items():
        family.add_metric(values, count_value=int(count), sum_value=total)
    return family
