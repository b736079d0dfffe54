"""What is read of attempts that did not come to their end, and of renewals."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueue.store.leases import renew_leases
from jobqueue.store.pool import Connection
from tests.chaos.reading import note_promises, outlasting, read_notes, read_promises
from tests.support.store import WORKER, add_queue, claim, submit

_UNTIL = "SELECT extract(epoch FROM expires_at)::float8 FROM jobqueue.leases WHERE id = $1"


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


async def test_of_each_renewed_lease_is_kept_until_when_it_was_to_last(conn: Connection) -> None:
    await note_promises(conn)
    await add_queue(conn)
    await submit(conn, 2)
    renewed, _ = [job.lease for job in await claim(conn, 2)]
    for lease_s in (60.0, 90.0):
        await renew_leases(conn, worker=WORKER, leases=[renewed], lease_s=lease_s)
    until = await conn.fetchval(_UNTIL, renewed.job)
    assert await read_promises(conn) == {renewed.token: until}
