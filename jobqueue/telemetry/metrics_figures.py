"""What the database knows of the whole system: the same on every server (R-7.1).

Read by a loop of the server, not by the scrape: a database that hangs must not take the other
metrics with it. Figures that could not be read for a while are left out, because a stale zero is
worse than none: an autoscaler would believe it.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobqueue.events.signals import EVENT_FIGURES
from jobqueue.store.events import Backlog
from jobqueue.submission.figures import FIGURES, STALE_S, Figures, QueueFigures
from jobqueue.telemetry.metrics_queues import QueueMetrics

T = TypeVar("T")

_GAUGES: tuple[tuple[str, str, Callable[[QueueFigures], float]], ...] = (
    (
        "jq_queue_runnable",
        "Jobs that may run now or do, 0 while the queue is paused: scale workers on this.",
        lambda q: q.runnable,
    ),
    (
        "jq_job_oldest_age_seconds",
        "For how long the oldest job that may be claimed has been ready.",
        lambda q: q.oldest_age_s,
    ),
    ("jq_job_unhandled", "Jobs for whose type no worker had a handler.", lambda q: q.unhandled),
)


class FigureMetrics(Collector):
    """Depths and ages of all queues, workers, and the backlog of events."""

    def __init__(self, queues: QueueMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        """``queues`` are told which queues there are, and forget the others."""
        self._queues = queues
        self._clock = clock
        self._known: frozenset[str] = frozenset()
        self._figures: tuple[float, Figures] | None = None
        self._backlog: tuple[float, Backlog] | None = None

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        FIGURES.subscribe(self._read)
        EVENT_FIGURES.subscribe(self._counted)

    def collect(self) -> Iterator[Metric]:
        """Yield eight metrics; without samples where nothing is known."""
        figures, backlog = self._fresh(self._figures), self._fresh(self._backlog)
        yield from _queues(figures.queues if figures else ())
        yield from _system(figures)
        yield from _events(backlog)

    def _fresh(self, read: tuple[float, T] | None) -> T | None:
        if read is None or self._clock() - read[0] > STALE_S:
            return None
        return read[1]

    def _read(self, figures: Figures) -> None:
        self._figures = (self._clock(), figures)
        live = {queue.name for queue in figures.queues}
        # Only of those that had series when the last look ended: a queue that was made since then
        # may have jobs and still be missing in this look.
        self._queues.forget(self._known - live)
        self._queues.know(live)
        self._known = self._queues.known()

    def _counted(self, backlog: Backlog) -> None:
        self._backlog = (self._clock(), backlog)


def _queues(queues: Iterable[QueueFigures]) -> Iterator[Metric]:
    depth = GaugeMetricFamily("jq_job_queue_depth", "Jobs by status.", labels=["queue", "status"])
    for queue in queues:
        for status, count in queue.depth.items():
            depth.add_metric([queue.name, status], count)
    yield depth
    for name, text, read in _GAUGES:
        gauge = GaugeMetricFamily(name, text, labels=["queue"])
        for queue in queues:
            gauge.add_metric([queue.name], read(queue))
        yield gauge


def _system(figures: Figures | None) -> Iterator[Metric]:
    yield _gauge(
        "jq_worker_active_count",
        "Workers that beat and claim.",
        figures.active_workers if figures else None,
    )
    yield _gauge(
        "jq_db_oldest_xmin_age_seconds",
        "Age of the oldest transaction that keeps dead rows from being removed.",
        figures.oldest_xmin_age_s if figures else None,
    )


def _events(backlog: Backlog | None) -> Iterator[Metric]:
    yield _gauge(
        "jq_event_backlog",
        "Events that Kafka has not got yet.",
        backlog.events if backlog else None,
    )
    yield _gauge(
        "jq_event_oldest_age_seconds",
        "Age of the oldest event that Kafka has not got yet.",
        backlog.oldest_age_s if backlog else None,
    )
    yield _gauge(
        "jq_events_parked",
        "Events that Kafka refused for good.",
        backlog.parked if backlog else None,
    )


def _gauge(name: str, text: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(name, text)
    if value is not None:
        family.add_metric([], value)
    return family
