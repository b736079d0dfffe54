"""What metrics count, and that nothing can make them many (R-7.1)."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from jobqueue.coordination.signals import (
    LOCK_CHANGED,
    REDIS_OPERATION,
    LockChanged,
    LockState,
    RedisOperation,
)
from jobqueue.domain.lease import Lease
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.events.signals import (
    EVENT_FIGURES,
    KAFKA_PUBLISH_FAILED,
    RELAY_CHANGED,
    PublishFailed,
    RelayChanged,
    RelayState,
)
from jobqueue.lease import signals as leases
from jobqueue.reaper.signals import JOBS_PROMOTED, SCHEDULER_CYCLE
from jobqueue.runtime.signals import Signal
from jobqueue.store.events import Backlog
from jobqueue.store.signals import JOBS_MOVED, QUERY_ENDED, Move, QueryEnded
from jobqueue.submission.figures import FIGURES, STALE_S, Figures, QueueFigures
from jobqueue.telemetry.metrics import Metrics, WorkerMetrics
from jobqueue.telemetry.metrics_figures import FigureMetrics
from jobqueue.telemetry.metrics_queues import QueueMetrics
from jobqueue.telemetry.metrics_server import ServerMetrics
from jobqueue.telemetry.metrics_tally import Durations, Histogram
from jobqueue.worker.signals import ATTEMPTS_TIMED
from tests.support.metrics import OPEN_METRICS, Page, page_of

SIGNALS: tuple[Signal[object], ...] = (  # type: ignore[assignment]
    *(JOBS_MOVED, QUERY_ENDED, FIGURES, EVENT_FIGURES, ATTEMPTS_TIMED, JOBS_PROMOTED),
    *(SCHEDULER_CYCLE, LOCK_CHANGED, REDIS_OPERATION, RELAY_CHANGED, KAFKA_PUBLISH_FAILED),
    *(leases.JOBS_STARTED, leases.LEASES_ACQUIRED, leases.LEASES_RENEWED),
    *(leases.LEASES_EXPIRED, leases.LEASES_LOST, leases.RETRIES_CHARGED, leases.QUEUES_MISSING),
)
PER_QUEUE, PER_PROGRAM = 40, 300
NO_JOBS = dict.fromkeys(JobStatus, 0)


@pytest.fixture(autouse=True)
def listeners_of_this_test_only() -> Iterator[None]:
    before = [(signal, signal._subscribers) for signal in SIGNALS]
    yield
    for signal, subscribers in before:
        signal._subscribers = subscribers


def read(metrics: Metrics) -> Page:
    text, content_type = metrics.page("")
    return page_of(text.decode(), content_type)


def server() -> ServerMetrics:
    metrics = ServerMetrics("jobqueue.events")
    metrics.listen()
    return metrics


def worker(*queues: str) -> WorkerMetrics:
    metrics = WorkerMetrics(queues)
    metrics.listen()
    return metrics


def figures(*names: str) -> Figures:
    return Figures([QueueFigures(name, NO_JOBS, 0, 0.0, 0) for name in names], 1, 0.0)


def everything_about(queue: str) -> None:
    """Let all happen in a queue that can."""
    JOBS_MOVED.emit(
        {Move(queue, s, r): 1 for s in JobStatus for r in Reason if s != "DEAD_LETTERED"}
    )
    dead = ("RETRIES_EXHAUSTED", "CRASH_LIMIT", "REFUSED", "TTL_EXPIRED", "CANCELLED")
    JOBS_MOVED.emit({Move(queue, JobStatus.DEAD_LETTERED, Reason(why)): 1 for why in dead})
    for signal in (leases.LEASES_ACQUIRED, leases.LEASES_RENEWED, leases.LEASES_EXPIRED):
        signal.emit(leases.LeaseCount(queue, 1))
    leases.LEASES_LOST.emit(leases.LeaseLoss(Lease(1, 1), uuid4(), queue, "why"))
    leases.JOBS_STARTED.emit({queue: [0.2, None]})
    leases.RETRIES_CHARGED.emit({queue: 1})
    JOBS_PROMOTED.emit({queue: 1})
    ATTEMPTS_TIMED.emit({queue: [0.2]})


def everything_else(metrics: ServerMetrics | None) -> None:
    """Call, ask and fail in more ways than there are."""
    for i in range(500):
        QUERY_ENDED.emit(QueryEnded(f"statement_{i}", 0.01, ok=True))
        REDIS_OPERATION.emit(RedisOperation(f"operation_{i}", 0.01, ok=True))
        for code in ("OK", "UNAVAILABLE", "CANCELLED", "NOT_FOUND", "INTERNAL", "ABORTED"):
            if metrics is not None:
                metrics.calls.call_ended(f"Service/Method{i}", code, 0.01)
    SCHEDULER_CYCLE.emit(0.01)
    KAFKA_PUBLISH_FAILED.emit(PublishFailed("jobqueue.events", 1, "why"))
    EVENT_FIGURES.emit(Backlog(1, 1.0, 1))


@pytest.mark.parametrize("count", [0, 1, 50])
def test_the_series_of_a_program_are_bounded_by_its_queues(count: int) -> None:
    names = [f"q{i}" for i in range(count)]
    of_server, of_worker = server(), worker(*names)
    of_worker.watch("w-1", lambda: 3)
    for name in names:
        everything_about(name)
    everything_else(of_server)
    FIGURES.emit(figures(*names))
    for metrics in (of_server, of_worker):
        page = read(metrics)
        assert page.queues() == set(names)
        assert page.series <= PER_QUEUE * count + PER_PROGRAM


def test_a_queue_has_all_its_series_before_anything_happens_in_it() -> None:
    of_server, of_worker = server(), worker("q")
    FIGURES.emit(figures("q"))
    before = [read(metrics).series for metrics in (of_server, of_worker)]
    everything_about("q")
    assert [read(metrics).series for metrics in (of_server, of_worker)] == before


def test_transitions_are_counted_by_where_they_lead_and_dead_ones_by_why() -> None:
    metrics = worker("q")
    cancelled = Move("q", JobStatus.DEAD_LETTERED, Reason.CANCELLED)
    JOBS_MOVED.emit({Move("q", JobStatus.FAILED, Reason.CANCELLED): 2, cancelled: 2})
    JOBS_MOVED.emit({cancelled: 1})
    page = read(metrics)
    assert page.by("jq_job_total", "status") == {("FAILED",): 2, ("DEAD_LETTERED",): 3}
    assert page.by("jq_job_dead_lettered_total", "reason") == {("CANCELLED",): 3}


def test_the_series_of_a_deleted_queue_go_and_those_of_a_new_one_stay() -> None:
    metrics = server()
    FIGURES.emit(figures("old"))
    JOBS_MOVED.emit({Move("new", JobStatus.PENDING, Reason.SUBMITTED): 5})
    # Made after this look at the database had begun, so missing in it.
    FIGURES.emit(figures())
    page = read(metrics)
    assert page.queues() == {"new"}
    FIGURES.emit(figures("new"))
    assert read(metrics).value("jq_job_total", queue="new", status="PENDING") == 5


def test_a_worker_forgets_a_queue_that_is_no_more() -> None:
    metrics = worker("kept", "gone")
    leases.QUEUES_MISSING.emit(frozenset({"gone"}))
    assert read(metrics).queues() == {"kept"}


def test_figures_that_could_not_be_read_for_long_are_left_out() -> None:
    now = [100.0]
    metrics = FigureMetrics(QueueMetrics.of_server(), lambda: now[0])
    metrics.listen()
    FIGURES.emit(figures("q"))
    EVENT_FIGURES.emit(Backlog(7, 1.0, 0))

    def samples() -> dict[str, int]:
        return {family.name: len(family.samples) for family in metrics.collect()}

    now[0] += STALE_S
    assert samples()["jq_job_queue_depth"] == 6
    now[0] += 0.1
    assert set(samples().values()) == {0}, "and the names are still told"


def test_the_format_follows_what_is_asked_for() -> None:
    metrics = server()
    text, kind = metrics.page("text/plain")
    assert kind.startswith("text/plain")
    assert b"# EOF" not in text
    text, kind = metrics.page(OPEN_METRICS)
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain;version=x.y", ",;=", f"{OPEN_METRICS}x"])
def test_whatever_is_asked_for_there_is_a_page(accept: str) -> None:
    text, kind = server().page(accept)
    assert b"jq_build_info" in text
    assert "version=" in kind


def test_locks_are_shown_by_who_holds_them() -> None:
    metrics = server()
    LOCK_CHANGED.emit(LockChanged("reaper", LockState.HELD))
    LOCK_CHANGED.emit(LockChanged("scheduler", LockState.UNAVAILABLE, "why"))
    RELAY_CHANGED.emit(RelayChanged(RelayState.HOLDING))
    assert read(metrics).by("jq_lock_held", "lock") == {("reaper",): 1, ("event-relay",): 1}
    LOCK_CHANGED.emit(LockChanged("reaper", LockState.STANDBY))
    RELAY_CHANGED.emit(RelayChanged(RelayState.STANDBY))
    assert not read(metrics).by("jq_lock_held", "lock")


def test_a_histogram_counts_each_value_up_to_and_with_a_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe(0.05)
    histogram.observe_all([0.1, 0.5, 7.0])
    assert histogram.buckets() == [("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)]
    assert histogram.total == pytest.approx(7.65)


def test_label_values_beyond_the_limit_are_added_up_as_other() -> None:
    durations = Durations(limit=2)
    for name in ("a", "b", "c", "d", "a"):
        durations.add((name, "OK"), 1.0)
    assert {labels: count for labels, count, _ in durations.items()} == {
        ("a", "OK"): 2,
        ("b", "OK"): 1,
        ("other", "OK"): 2,
    }
