"""What a program did to the jobs of each queue: transitions, leases, times (R-7.1).

The number of series of a queue is fixed from the first look at it, so that a rate is right from
the first event on, and their sum is bounded by the number of queues.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from jobqueue.domain.state import JobStatus, Reason
from jobqueue.lease.signals import (
    JOBS_STARTED,
    LEASES_ACQUIRED,
    LEASES_EXPIRED,
    LEASES_LOST,
    LEASES_RENEWED,
    QUEUES_MISSING,
    RETRIES_CHARGED,
    LeaseCount,
    LeaseLoss,
)
from jobqueue.reaper.signals import JOBS_PROMOTED
from jobqueue.store.signals import JOBS_MOVED, Move
from jobqueue.telemetry.metrics_tally import Histogram
from jobqueue.worker.signals import ATTEMPTS_TIMED

WAIT_BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 1800.0)
PROCESSING_BUCKETS_S = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)

DEAD_REASONS = (
    Reason.RETRIES_EXHAUSTED,
    Reason.CRASH_LIMIT,
    Reason.REFUSED,
    Reason.TTL_EXPIRED,
    Reason.CANCELLED,
)
"""All for which a job may be dead-lettered."""


@dataclass(slots=True)
class QueueTally:
    """What happened in one queue."""

    moves: dict[JobStatus, int] = field(default_factory=lambda: dict.fromkeys(JobStatus, 0))
    dead: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(DEAD_REASONS, 0))
    retries: int = 0
    acquired: int = 0
    renewed: int = 0
    expired: int = 0
    lost: int = 0
    promoted: int = 0
    wait: Histogram = field(default_factory=lambda: Histogram(WAIT_BUCKETS_S))
    processing: Histogram = field(default_factory=lambda: Histogram(PROCESSING_BUCKETS_S))


Read = Callable[[QueueTally], int]
Samples = Iterable[tuple[str, QueueTally]]

_COUNTERS: Mapping[str, tuple[str, Read]] = {
    "jq_job_retries": (
        "Attempts that ended badly, were charged a retry and will be followed by another.",
        lambda t: t.retries,
    ),
    "jq_lease_acquired": ("Leases taken: jobs claimed.", lambda t: t.acquired),
    "jq_lease_renewed": ("Renewals of leases.", lambda t: t.renewed),
    "jq_lease_expired": (
        "Leases that ran out and were taken back by the reaper.",
        lambda t: t.expired,
    ),
    "jq_lease_lost": ("Leases that a worker believed in and lost.", lambda t: t.lost),
    "jq_scheduler_jobs_assigned": (
        "Jobs that the scheduler gave to the workers because their time had come.",
        lambda t: t.promoted,
    ),
}
_SERVER_COUNTERS = (
    "jq_job_retries",
    "jq_lease_acquired",
    "jq_lease_expired",
    "jq_scheduler_jobs_assigned",
)
_WORKER_COUNTERS = ("jq_job_retries", "jq_lease_acquired", "jq_lease_renewed", "jq_lease_lost")


class QueueMetrics(Collector):
    """Listens, and tells for each queue what it heard."""

    def __init__(self, counters: Sequence[str], *, runs_jobs: bool) -> None:
        self._counters = counters
        self._runs_jobs = runs_jobs
        self._tallies: dict[str, QueueTally] = {}

    @classmethod
    def of_server(cls) -> "QueueMetrics":
        """Return those of a server, which runs no job."""
        return cls(_SERVER_COUNTERS, runs_jobs=False)

    @classmethod
    def of_worker(cls, queues: Iterable[str]) -> "QueueMetrics":
        """Return those of a worker that serves these queues."""
        metrics = cls(_WORKER_COUNTERS, runs_jobs=True)
        metrics.know(queues)
        QUEUES_MISSING.subscribe(metrics.forget)
        return metrics

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        JOBS_MOVED.subscribe(self._moved)
        RETRIES_CHARGED.subscribe(self._retried)
        JOBS_STARTED.subscribe(self._started)
        JOBS_PROMOTED.subscribe(self._promoted)
        LEASES_ACQUIRED.subscribe(self._acquired)
        LEASES_RENEWED.subscribe(self._renewed)
        LEASES_EXPIRED.subscribe(self._expired)
        LEASES_LOST.subscribe(self._lost)
        ATTEMPTS_TIMED.subscribe(self._timed)

    def known(self) -> frozenset[str]:
        """Return the queues that have series."""
        return frozenset(self._tallies)

    def know(self, queues: Iterable[str]) -> None:
        """Show these, at zero."""
        for queue in queues:
            self._of(queue)

    def forget(self, queues: Iterable[str]) -> None:
        """Show these no more: they were deleted."""
        for queue in queues:
            self._tallies.pop(queue, None)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics with a sample for each queue."""
        samples = sorted(self._tallies.items())
        yield _moves(samples)
        yield _dead(samples)
        for name in self._counters:
            text, read = _COUNTERS[name]
            counter = CounterMetricFamily(name, text, labels=["queue"])
            for queue, tally in samples:
                counter.add_metric([queue], read(tally))
            yield counter
        yield from self._histograms(samples)

    def _histograms(self, samples: Samples) -> Iterator[Metric]:
        yield _histogram(
            "jq_job_wait_seconds",
            "From when a job was ready to its start.",
            ((queue, tally.wait) for queue, tally in samples),
        )
        if self._runs_jobs:
            yield _histogram(
                "jq_job_processing_duration_seconds",
                "How long handlers ran.",
                ((queue, tally.processing) for queue, tally in samples),
            )

    def _of(self, queue: str) -> QueueTally:
        tally = self._tallies.get(queue)
        if tally is None:
            tally = self._tallies[queue] = QueueTally()
        return tally

    def _moved(self, moves: Mapping[Move, int]) -> None:
        for (queue, status, reason), count in moves.items():
            tally = self._of(queue)
            tally.moves[status] += count
            if status is JobStatus.DEAD_LETTERED:
                tally.dead[reason] += count

    def _retried(self, by_queue: Mapping[str, int]) -> None:
        for queue, count in by_queue.items():
            self._of(queue).retries += count

    def _started(self, waits: Mapping[str, Sequence[float | None]]) -> None:
        for queue, waited_s in waits.items():
            self._of(queue).wait.observe_all([max(0.0, s) for s in waited_s if s is not None])

    def _promoted(self, by_queue: Mapping[str, int]) -> None:
        for queue, count in by_queue.items():
            self._of(queue).promoted += count

    def _acquired(self, news: LeaseCount) -> None:
        self._of(news.queue).acquired += news.count

    def _renewed(self, news: LeaseCount) -> None:
        self._of(news.queue).renewed += news.count

    def _expired(self, news: LeaseCount) -> None:
        self._of(news.queue).expired += news.count

    def _lost(self, news: LeaseLoss) -> None:
        self._of(news.queue).lost += 1

    def _timed(self, by_queue: Mapping[str, Sequence[float]]) -> None:
        for queue, seconds in by_queue.items():
            self._of(queue).processing.observe_all(seconds)


def _moves(samples: Samples) -> Metric:
    family = CounterMetricFamily(
        "jq_job",
        "Transitions that this program wrote, by the status they lead to.",
        labels=["queue", "status"],
    )
    for queue, tally in samples:
        for status, count in tally.moves.items():
            family.add_metric([queue, status], count)
    return family


def _dead(samples: Samples) -> Metric:
    family = CounterMetricFamily(
        "jq_job_dead_lettered",
        "Jobs that this program dead-lettered.",
        labels=["queue", "reason"],
    )
    for queue, tally in samples:
        for reason, count in tally.dead.items():
            family.add_metric([queue, reason], count)
    return family


def _histogram(name: str, text: str, samples: Iterable[tuple[str, Histogram]]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=["queue"])
    for queue, histogram in samples:
        family.add_metric([queue], histogram.buckets(), histogram.total)
    return family
