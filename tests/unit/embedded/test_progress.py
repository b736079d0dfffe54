"""How long a start is waited for."""

from pathlib import Path

from jobqueue.embedded.progress import Progress
from jobqueue.runtime.clock import ManualClock


def test_a_start_is_waited_for_while_it_writes_its_log_and_a_minute_longer(tmp_path: Path) -> None:
    log, clock = tmp_path / "postgres.log", ManualClock()
    log.write_text("starting\n")
    told: list[str] = []
    progress = Progress(log, told.append, clock.monotonic)
    assert not progress.is_over()
    for elapsed in (50, 100, 150):
        clock.advance(50.0)
        with log.open("a") as lines:
            lines.write(f"redo in progress, elapsed time: {elapsed} s\n")
        assert not progress.is_over()
    clock.advance(60.0)
    assert not progress.is_over()
    clock.advance(1.0)
    assert progress.is_over()
    assert told == [f"redo in progress, elapsed time: {elapsed} s" for elapsed in (50, 100, 150)]
