"""What is read of attempts that did not come to their end."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.reading import outlasting, read_notes


@pytest.fixture
def attempt() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def begun(folder: Path, pid: int, at: float, *more: str) -> Path:
    lines = [f"begun job 1 nonce {pid} {at}", *more]
    (folder / "1.notes").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


async def test_an_attempt_that_said_nothing_more_and_whose_process_lives_is_told(
    attempt: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (run,), unfinished = read_notes(begun(tmp_path, attempt.pid, time.time()))
    assert (run.nonce, run.returned) == ("nonce", False)
    assert await outlasting(unfinished, within_s=0.1) == ["nonce"]


async def test_an_attempt_has_some_time_to_end(
    attempt: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    _, unfinished = read_notes(begun(tmp_path, attempt.pid, time.time()))
    looking = asyncio.create_task(outlasting(unfinished, within_s=60))
    await asyncio.to_thread(attempt.communicate, b"\n")
    assert await looking == []


async def test_a_process_that_was_begun_after_the_attempt_is_another_one(
    attempt: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    _, unfinished = read_notes(begun(tmp_path, attempt.pid, time.time() - 60))
    assert await outlasting(unfinished, within_s=0.1) == []


async def test_an_attempt_that_returned_is_over_whatever_its_process_does(
    attempt: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    now = time.time()
    (run,), unfinished = read_notes(begun(tmp_path, attempt.pid, now, f"returned nonce {now}"))
    assert run.returned
    assert not unfinished
