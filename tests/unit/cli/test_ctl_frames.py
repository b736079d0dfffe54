"""What `jq-ctl top` makes of two looks at the system."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from jobqueue.cli.ctl.frames import Frame, Rates, Series, Table, rates
from jobqueue.cli.ctl.screen import fitting, layout
from jobqueue.client import ComponentStatus, SystemStatus, UnhandledType
from jobqueue.domain.queue import QueueStats
from jobqueue.domain.state import JobStatus
from jobqueue.domain.worker import Worker, WorkerStatus
from jobqueue.errors import NotFound
from tests.support.workers import facts

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
WELL = (ComponentStatus("postgresql", "ok", "18.1"), ComponentStatus("scheduler-ttl", "ok"))


def stats(
    queue: str = "q",
    depth: Mapping[JobStatus, int] | None = None,
    *,
    after_s: float = 0.0,
    done: int = 0,
    dead: int = 0,
) -> QueueStats:
    every = dict.fromkeys(JobStatus, 0) | dict(depth or {})
    return QueueStats(
        queue=queue,
        as_of=NOON + timedelta(seconds=after_s),
        depth=every,
        done_total=done,
        dead_total=dead,
        window_s=3600.0,
        average_processing_s=0.1,
        error_rate=0.25,
        oldest_runnable_s=90.0,
        unhandled=0,
        paused=False,
    )


def worker(worker_id: str, queues: Sequence[str], running: int = 0) -> Worker:
    return Worker(
        facts(worker_id, queues=queues),
        WorkerStatus.ACTIVE,
        running,
        NOON,
        NOON - timedelta(seconds=3),
    )


def system(*queues: QueueStats, workers: Sequence[Worker] = ()) -> SystemStatus:
    return SystemStatus("0.1.0 (abc)", NOON, WELL, queues, tuple(workers), ())


def drawn(frame: Frame | None, width: int, height: int | None, trouble: str | None = None) -> str:
    console = Console(width=width, height=height or 1_000, force_terminal=False)
    with console.capture() as captured:
        console.print(layout(frame, trouble, width, height))
    return captured.get()


def test_rates_are_differences_of_totals_over_the_time_of_the_database() -> None:
    before = stats(depth={JobStatus.PENDING: 10, JobStatus.RUNNING: 2}, done=100, dead=5)
    now = stats(depth={JobStatus.PENDING: 30, JobStatus.FAILED: 2}, after_s=4, done=140, dead=7)
    assert rates(before, now) == Rates(entered=15.5, done=10.0, dead_lettered=0.5)


def test_done_jobs_that_are_pruned_change_no_rate() -> None:
    before = stats(depth={JobStatus.DONE: 1_000}, done=1_000)
    assert rates(before, stats(after_s=2, done=1_000)) == Rates(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, stats(after_s=2)),
        (stats(after_s=2), stats(after_s=2)),
        (stats(done=10), stats(after_s=2, done=3)),
        (stats(depth={JobStatus.PENDING: 5}), stats(after_s=2)),
    ],
    ids=["first look", "same look", "made again", "made again and empty"],
)
def test_without_a_look_to_compare_with_there_is_no_rate(
    before: QueueStats | None, now: QueueStats
) -> None:
    assert rates(before, now) is None


def test_the_deepest_queue_and_the_busiest_worker_come_first() -> None:
    queues = (stats("b"), stats("a", {JobStatus.DONE: 9}), stats("deep", {JobStatus.FAILED: 3}))
    workers = [worker("w-1", ["a"]), worker("w-2", ["a"], running=2)]
    shown = Series().frame(system(*queues, workers=workers), NOON)
    assert [row[0] for row in shown.queues().rows] == ["deep", "a", "b"]
    assert [row[0] for row in shown.workers().rows] == ["w-2", "w-1"]
    assert shown.workers().rows[0][2:4] == ("2/4", "3.0 s")


def test_named_queues_are_shown_with_their_workers_and_nothing_else() -> None:
    look = system(stats("a"), stats("b"), workers=[worker("w-a", ["a"]), worker("w-b", ["b"])])
    look = SystemStatus(
        *(look.version, look.started_at, look.components, look.queues, look.workers),
        (UnhandledType("a", "send", 2), UnhandledType("b", None, 1)),
    )
    shown = Series(["a"]).frame(look, NOON)
    assert [row[0] for row in shown.queues().rows] == ["a"]
    assert [row[0] for row in shown.workers().rows] == ["w-a"]
    assert shown.heading()[-1] == "no worker that met them had a handler for: a send 2"


def test_a_named_queue_must_be_there_at_first_and_may_go_later() -> None:
    with pytest.raises(NotFound, match="nowhere"):
        Series(["a", "nowhere"]).frame(system(stats("a")), NOON)
    series = Series(["a"])
    series.frame(system(stats("a")), NOON)
    assert series.frame(system(stats("b")), NOON).queues().rows == []


def test_after_an_outage_of_the_database_rates_are_of_the_whole_time() -> None:
    series = Series()
    series.frame(system(stats()), NOON)
    assert series.frame(system(), NOON).queues().rows == []
    later = series.frame(system(stats(after_s=60, done=30)), NOON)
    assert later.rates == {"q": Rates(0.5, 0.5, 0.0)}
    assert later.heading()[1] == "jobs: 0 unfinished in 1 queues, in 0.5/s, done 0.5/s"


def test_loops_that_are_well_are_not_worth_a_line() -> None:
    frame = Series().frame(system(stats()), NOON)
    assert [row[0] for row in frame.components().rows] == ["postgresql"]


@pytest.mark.parametrize(("width", "height"), [(20, 10), (40, 24), (80, 24), (200, 60), (1, 1)])
def test_no_line_wraps_and_no_row_is_lost_silently(width: int, height: int) -> None:
    look = system(
        *(stats(f"a-queue-with-a-rather-long-name-{n}", done=n) for n in range(40)),
        workers=[worker(f"host-{n}-with-a-long-name", ["q"]) for n in range(30)],
    )
    text = drawn(Series().frame(look, NOON), width, height)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    if width >= 20:
        shown = sum(line.startswith("a-queue") for line in lines)
        assert f"and {40 - shown} more" in text
    if height >= 24:
        assert len(lines) <= height
        assert shown >= 1
        assert sum(line.startswith("host-") for line in lines) >= 1


def test_a_frame_without_bounds_shows_everything() -> None:
    look = system(*(stats(f"q-{n}") for n in range(40)))
    text = drawn(Series().frame(look, NOON), 200, None)
    assert "more" not in text
    assert all(f"q-{n} " in text for n in range(40))
    assert "DEAD_LETTERED" in text


def test_trouble_is_shown_with_the_last_frame_and_without_one() -> None:
    assert drawn(None, 80, 24, "away") == "away\n"
    lines = drawn(Series().frame(system(stats()), NOON), 80, 24, "away").splitlines()
    assert lines[3] == "away"
    assert any(line.startswith("q ") for line in lines)


def test_text_at_the_end_is_cut_where_numbers_are_left_out() -> None:
    row = ("kafka", "degraded", "events wait: " + "x" * 80)
    table = Table(("COMPONENT", "STATE", "DETAIL"), [row], ends_in_text=True)
    assert fitting(table, 40) == 3
    assert fitting(Table(table.columns, table.rows), 40) == 2
